"""The folder of a server: one folder a recording, gone when the server stops."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alphamf.errors import AlphaMFError
from alphamf.tools.files import exclusive, reason, shown

PREFIX = "alphamf-serve-"


@contextmanager
def open_store() -> Iterator[Path]:
    """Yield a new folder that nobody else can read; delete it at the end.

    What killed servers of this user have left is deleted first: their folders are not locked.

    Raises
    ------
    AlphaMFError
        The folder for temporary files cannot be written.
    """
    _clear()
    try:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    except OSError as error:
        place = shown(tempfile.gettempdir())
        raise AlphaMFError(f"{place} cannot be written: {reason(error)}") from error
    try:
        with exclusive(folder, f"{shown(folder)} is another server's", folder=True):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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


def _clear() -> None:
    """Delete the folders of servers that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            found = folder.lstat()
            own = not hasattr(os, "getuid") or found.st_uid == os.getuid()
            if not (own and stat.S_ISDIR(found.st_mode)):
                continue
            with exclusive(folder, "", folder=True):
                shutil.rmtree(folder, ignore_errors=True)
        except (AlphaMFError, OSError):
            continue
