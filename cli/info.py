"""``alphamf info``: what a recording or a model holds."""


def info() -> None:
    """Show what a recording or a model holds."""
