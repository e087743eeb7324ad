"""The samplers: one file per family, with their names in `registry`."""
