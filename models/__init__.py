"""Dictionaries of speech that come with the package; README.md says how they were made."""
