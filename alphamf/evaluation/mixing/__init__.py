"""Corpora of noisy speech, made from clean speech and noises."""
