"""``alphamf train``: a dictionary from clean speech."""


def train() -> None:
    """Learn a speech model from clean recordings."""
