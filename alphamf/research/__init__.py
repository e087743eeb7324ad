"""The papers' experiments and their data."""
