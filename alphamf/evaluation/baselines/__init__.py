"""Other denoising methods for comparison: built in, or from packages and programs."""
