"""The papers' experiments, their data, and speed measurements."""
