"""Import libraries that would otherwise take settings from the working directory.

numba, which librosa imports, reads ``.numba_config.yaml`` there, and Matplotlib ``matplotlibrc``.
The folder may belong to someone else, and such a file can name folders from which code is run.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

_lock = threading.RLock()


def load(name: str) -> Any:
    """Import a module of librosa or Matplotlib with the settings that the library ships with.

    A library that the program has already imported keeps its settings.
    """
    with _lock:
        if name.startswith("librosa") and "numba" not in sys.modules:
            _import_numba()
        if name == "librosa.display" or name.startswith("matplotlib"):
            _import_matplotlib()
    return import_module(name)


def _import_numba() -> None:
    # What lies in its cache is run.
    os.environ["NUMBA_CACHE_DIR"] = str(_private_folder("numba"))
    with _relative_files_hidden():
        import_module("numba")
    # It looks again whenever it compiles.
    sys.modules["numba.core.config"]._config_fname = ""  # type: ignore[attr-defined]


def _import_matplotlib() -> None:
    spec = find_spec("matplotlib")
    if "matplotlib" in sys.modules or spec is None or spec.origin is None:
        return
    before = os.environ.get("MATPLOTLIBRC")
    os.environ["MATPLOTLIBRC"] = str(Path(spec.origin).with_name("mpl-data") / "matplotlibrc")
    try:
        with _relative_files_hidden():
            import_module("matplotlib")
    finally:
        del os.environ["MATPLOTLIBRC"]
        if before is not None:
            os.environ["MATPLOTLIBRC"] = before


@contextmanager
def _relative_files_hidden() -> Iterator[None]:
    """Let `os.path.exists` deny relative files in this thread.

    Changing the working directory would also work, but would affect other threads.
    """
    exists, thread = os.path.exists, threading.get_ident()

    def exists_elsewhere(path: Any) -> bool:
        hidden = threading.get_ident() == thread and not isinstance(path, int)
        return not (hidden and not os.path.isabs(path)) and exists(path)

    os.path.exists = exists_elsewhere
    try:
        yield
    finally:
        os.path.exists = exists


def _private_folder(name: str) -> Path:
    """Make a folder in the user's cache that nobody else can write to, or a temporary one."""
    import pooch

    folder = Path(pooch.os_cache("alphamf")) / name
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_private(folder):
            return folder
    except OSError:  # no home, or one that cannot be written
        pass
    folder = Path(tempfile.mkdtemp(prefix="alphamf-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _is_private(folder: Path) -> bool:
    """Return whether a folder is no link and only the user, who owns it, can write to it."""
    status = folder.stat(follow_symlinks=False)
    if sys.platform == "win32":  # the user's profile is
        return stat.S_ISDIR(status.st_mode)
    mine = status.st_uid == os.geteuid() and not status.st_mode & 0o022
    return stat.S_ISDIR(status.st_mode) and mine and os.access(folder, os.W_OK | os.X_OK)
