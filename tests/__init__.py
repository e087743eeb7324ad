"""The tests: folders as in alphamf/, and what they share in support/."""
