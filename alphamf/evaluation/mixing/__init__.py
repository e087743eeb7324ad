"""Noisy speech at a chosen signal-to-noise ratio, for test corpora."""
