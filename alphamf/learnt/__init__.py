"""Trained models and how they are used: dictionaries and networks."""
