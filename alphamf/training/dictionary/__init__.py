"""Training of dictionaries of speech spectra, and of their rows for the bands above 7.5 kHz."""
