"""Training of dictionaries and of the networks that denoise."""
