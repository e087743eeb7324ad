"""Alpha-stable matrix factorization of any spectrogram, and of any number of sources."""
