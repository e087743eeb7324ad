"""The command line: one file per command, assembled in `app`. Empty, so that `start` is fast."""
