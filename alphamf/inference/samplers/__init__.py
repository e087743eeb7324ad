"""The samplers: one file a family, and their names in `registry`."""
