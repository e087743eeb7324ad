"""The papers' experiments and their data, and what the inner loops are measured against."""
