"""The product: a noisy recording in, a clean one out."""
