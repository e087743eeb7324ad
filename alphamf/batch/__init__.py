"""Files: planned, denoised, and written, with what is written beside them."""
