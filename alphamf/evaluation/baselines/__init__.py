"""Other ways to denoise, to compare with: built in, or from packages and programs."""
