"""Folders in which libraries keep what they compile, where the user's home cannot be written."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

_NUMBA = "NUMBA_CACHE_DIR"


def ensure() -> None:
    """Give numba, without whose cache librosa cannot be imported, a folder of this process.

    To be called before librosa is imported. Nothing happens where the user's own folder can be
    written, or NUMBA_CACHE_DIR names one. The folder is nobody else's, as what lies there is
    executed, and is removed at the end of the process.
    """
    if _NUMBA in os.environ or _writable(_home()):
        return
    folder = tempfile.mkdtemp(prefix="alphamf-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ[_NUMBA] = folder


def _home() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())


def _writable(folder: Path) -> bool:
    """Whether a folder can be written, or made."""
    # Of folders that may not be entered, Path.exists and Path.is_dir raise errors.
    there = next((each for each in (folder, *folder.parents) if os.path.exists(each)), None)
    return there is not None and os.path.isdir(there) and os.access(there, os.W_OK | os.X_OK)
