"""Measurements of quality and speed, apart from the package."""
