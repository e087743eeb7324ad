"""Training of dictionaries of speech spectra, and the choice of their rank and alpha."""
