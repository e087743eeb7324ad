"""``alphamf models``: the dictionaries in the package."""


def models() -> None:
    """List the speech models that come with alphamf."""
