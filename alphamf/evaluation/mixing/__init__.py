"""Make corpora of noisy speech from clean speech and noises."""
