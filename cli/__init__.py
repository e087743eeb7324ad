"""The command line: one file per command, assembled in `app`; empty here for a fast start."""
