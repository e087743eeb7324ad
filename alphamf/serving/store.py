"""The server's folder, which has a subfolder per recording, and checks of its free space."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path

from alphamf.errors import AlphaMFError


def new_folder(store: Path) -> tuple[str, Path]:
    """Create a folder for a recording; return its name, which cannot be guessed, and its path."""
    name = secrets.token_hex(16)
    folder = store / name
    folder.mkdir(mode=0o700)
    return name, folder


def has_room(folder: Path, size: int, spare: int) -> bool:
    """Return whether a folder's disk has room for `size` bytes and still `spare` free bytes."""
    return shutil.disk_usage(folder).free >= size + spare


def check_room(folder: Path, size: int, spare: int) -> None:
    """Raise an AlphaMFError if the disk does not have enough space; see `has_room`."""
    if not has_room(folder, size, spare):
        raise AlphaMFError("the server's disk does not have enough free space for the result")
