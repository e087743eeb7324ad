"""The papers' experiments: one folder per paper; `catalogue` lists them all."""
