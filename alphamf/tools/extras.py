"""Optional packages that only some commands need, and the commands that install them here."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from importlib.util import find_spec

from alphamf.errors import AlphaMFError

CPU_TORCH = "https://download.pytorch.org/whl/cpu"
"""Index of PyTorch's builds without CUDA, which is not in the ones for Windows and macOS anyway."""


def require_package(what: str, package: str, extra: str) -> None:
    """Raise an AlphaMFError before the work starts if a package is not installed."""
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

    It is that of the program with which alphamf was installed: pip of this Python, uv or pipx.
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
    """Return the command that adds an extra with PyTorch, and says how large that is."""
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
    """Return where alphamf was installed from, as ``" @ URL"``; empty for an index."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        text = distribution("alphamf").read_text("direct_url.json")
        url = json.loads(text or "{}").get("url")
    except (PackageNotFoundError, ValueError, AttributeError):
        return ""
    return f" @ {url}" if isinstance(url, str) else ""


def _quoted(word: str) -> str:
    """Quote a word for the shell: that of Windows takes double quotes only."""
    if sys.platform != "win32":
        return shlex.quote(word)
    return f'"{word}"' if set(word) & set(" []<>@") else word
