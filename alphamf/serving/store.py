"""The folder of a server holds one of each recording."""

from __future__ import annotations

import secrets
from pathlib import Path


def new_folder(store: Path) -> tuple[str, Path]:
    """Make the folder of a recording, and return its name, which cannot be guessed, and the folder.

    Raises
    ------
    OSError
        The disk is full.
    """
    name = secrets.token_hex(16)
    folder = store / name
    folder.mkdir(mode=0o700)
    return name, folder
