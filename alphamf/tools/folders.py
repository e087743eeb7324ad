"""Temporary folders; those of killed processes are deleted when the next one is made."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from alphamf.errors import AlphaMFError
from alphamf.tools.files import exclusive_lock, reason

_TRIES = 100
"""Attempts to lock a new folder before another process takes it for that of a killed one."""


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Yield a new folder that only the current user can read; delete it at the end if possible.

    Folders of this user's killed processes, which are not locked, are deleted first.
    """
    _clear(prefix)
    with ExitStack() as stack:
        for _ in range(_TRIES):
            if (folder := _locked_folder(prefix, stack)) is not None:
                break
        else:
            raise AlphaMFError("cannot create a temporary folder that no other process deletes")
        yield folder


def _locked_folder(prefix: str, stack: ExitStack) -> Path | None:
    """Make a folder, which the stack deletes; None if another process took it for a left one."""
    try:
        folder = Path(tempfile.mkdtemp(prefix=prefix))
    except OSError as error:
        raise AlphaMFError(f"cannot create a temporary folder: {reason(error)}") from error
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    try:
        stack.enter_context(exclusive_lock(folder, "", folder=True))
    except AlphaMFError:
        return None
    return folder if folder.exists() else None


def _clear(prefix: str) -> None:
    """Delete the folders of killed processes."""
    try:
        place = Path(tempfile.gettempdir())
        left = [place / name for name in os.listdir(place) if name.startswith(prefix)]
    except OSError:
        return
    for folder in left:
        with suppress(AlphaMFError, OSError):
            found = folder.lstat()
            own = not hasattr(os, "getuid") or found.st_uid == os.getuid()
            if own and stat.S_ISDIR(found.st_mode):
                with exclusive_lock(folder, "", folder=True) as locked:
                    if locked:
                        shutil.rmtree(folder, ignore_errors=True)
