"""Optional packages: how to install them, and how to import them safely.

numba, which librosa imports, reads ``.numba_config.yaml`` in the working directory, and Matplotlib
``matplotlibrc``. The folder may belong to someone else, and such a file can name folders from which
code is run.
"""

import atexit
import json
import os
import shlex
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

from alphamf.errors import AlphaMFError

CPU_TORCH = "https://download.pytorch.org/whl/cpu"
"""Index of PyTorch's builds without CUDA; its usual builds for Windows and macOS have no CUDA."""


def require_package(what: str, package: str, extra: str) -> None:
    """Raise an AlphaMFError if a package is not installed; call it before the work starts."""
    if find_spec(package) is None:
        raise AlphaMFError(
            f"{what} needs the package {package}; install it with {install_extra(extra)}"
        )


def install_extra(*extras: str) -> str:
    """Return the command that adds extras to the alphamf that is running."""
    wanted = f"alphamf[{','.join(extras)}]"
    if os.path.exists(os.path.join(sys.prefix, "uv-receipt.toml")):  # `uv tool install`
        return f"uv tool install {_quoted(f'{wanted}{_origin()}')}"
    return install_packages(wanted)


def install_packages(*requirements: str, dependencies: bool = True) -> str:
    """Return the command that installs packages beside the alphamf that is running.

    The command uses the program with which alphamf was installed: pip of this Python, uv or pipx.
    """
    words = " ".join([*([] if dependencies else ["--no-deps"]), *map(_quoted, requirements)])
    if os.path.exists(os.path.join(sys.prefix, "pipx_metadata.json")):
        return f"pipx runpip {_quoted(os.path.basename(sys.prefix))} install {words}"
    python = _quoted(sys.executable)
    if installed_version("pip") is None and shutil.which("uv"):
        return f"uv pip install --python {python} {words}"
    pip = shutil.which("pip")
    own = os.path.join(os.path.dirname(sys.executable), os.path.basename(pip or "pip"))
    if pip is not None and os.path.normcase(pip) == os.path.normcase(own):
        return f"pip install {words}"
    return f"{python} -m pip install {words}"


def install_torch(extra: str) -> str:
    """Return the command that adds an extra with PyTorch, followed by the size of the download."""
    command = install_extra(extra)
    if sys.platform != "linux":
        return f"{command} (0.8 GB)"
    option = "--index" if command.startswith("uv ") else "--extra-index-url"
    return f"{command} {option} {CPU_TORCH} (0.8 GB; without the index, 6 GB with CUDA)"


def installed_version(package: str) -> str | None:
    """Return the version of a package, by its name for pip; None if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # slow to import

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _origin() -> str:
    """Return where alphamf was installed from, as ``" @ URL"``; empty for a package index."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        text = distribution("alphamf").read_text("direct_url.json")
        url = json.loads(text or "{}").get("url")
    except (PackageNotFoundError, ValueError, AttributeError):
        return ""
    return f" @ {url}" if isinstance(url, str) else ""


def _quoted(word: str) -> str:
    """Return a word, quoted for the shell if needed: on Windows with double quotes."""
    if sys.platform != "win32":
        return shlex.quote(word)
    return f'"{word}"' if set(word) & set(" []<>@") else word


_lock = threading.RLock()


def load_library(name: str) -> Any:
    """Import and return a module of librosa or Matplotlib with the library's default settings.

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
    """Make `os.path.exists` return False for relative paths in this thread.

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
    """Return a folder in the user's cache that only the user can write to, or a temporary one."""
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
    """Return whether a folder is no link and (not checked on Windows) only the user can write."""
    status = folder.stat(follow_symlinks=False)
    if sys.platform == "win32":  # the user's profile is
        return stat.S_ISDIR(status.st_mode)
    mine = status.st_uid == os.geteuid() and not status.st_mode & 0o022
    return stat.S_ISDIR(status.st_mode) and mine and os.access(folder, os.W_OK | os.X_OK)
