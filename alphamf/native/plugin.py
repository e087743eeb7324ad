"""Install the plug-ins: the engine and its weights in one file, where hosts look for it."""

import os
import platform
import struct
import sys
from importlib.resources import files
from pathlib import Path

from alphamf.errors import AlphaMFError
from alphamf.learnt.causal import aligned
from alphamf.native.engine import library_file, no_compiler
from alphamf.tools.files import atomic_file, make_folder, printable_name, reason, refuse_links

TRAILER = struct.Struct("<QQ16s")
"""Binary layout of ``struct trailer`` in ``plugin.c``."""

MAGIC = b"alphamf plug-in"
NAME = "alphamf.so"
FILES = {"LADSPA": NAME, "LV2": f"alphamf.lv2/{NAME}"}
if sys.platform == "linux":
    FILES["VST3"] = f"alphamf.vst3/Contents/{platform.machine()}-linux/{NAME}"
TEXTS = "alphamf.lv2/manifest.ttl", "alphamf.lv2/alphamf.ttl"
_URI, _LONGEST = b"urn:alphamf:", 1 << 16
"""Start of the plug-ins' URIs in `TEXTS`, and number of bytes that are searched for it."""


def plugin(wide: bytes, narrow: bytes) -> bytes:
    """Return the plug-ins' bytes; `wide`, `narrow`: weights for rates above 8 kHz, and up to it."""
    file = library_file()
    if file is None:
        raise no_compiler("plug-in")
    library = aligned(Path(file).read_bytes())
    return library + wide + narrow + TRAILER.pack(len(wide), len(narrow), MAGIC)


def _folder(kind: str) -> Path:
    """Return the user's folder for a kind of plug-in: first in ``LV2_PATH`` etc., or a default."""
    if first := os.environ.get(f"{kind}_PATH", "").split(os.pathsep)[0]:
        return Path(first)
    try:
        home = Path.home()
    except RuntimeError:
        raise AlphaMFError(f"this user has no home folder; set HOME or {kind}_PATH") from None
    if sys.platform == "darwin":
        return home / "Library" / "Audio" / "Plug-Ins" / kind
    return home / f".{kind.lower()}"


def _files() -> list[tuple[Path, Path]]:
    """Return pairs of the user's folder and a file in it to install, plug-ins first."""
    named = [*FILES.items(), *(("LV2", text) for text in TEXTS)]
    return [(_folder(kind), _folder(kind) / name) for kind, name in named]


def _is_ours(root: Path, path: Path) -> bool:
    """Return whether `install` wrote a file, and the path from `root` to it has no links."""
    try:
        refuse_links(path, root)
        with path.open("rb") as file:
            if path.suffix == ".ttl":
                return _URI in file.read(_LONGEST)
            file.seek(-TRAILER.size, os.SEEK_END)
            return file.read().endswith(MAGIC.ljust(16, b"\0"))
    except (AlphaMFError, OSError):
        return False


def installed() -> list[Path]:
    """Return the files of the plug-ins that are installed, LADSPA's first."""
    return [path for root, path in _files()[: len(FILES)] if _is_ours(root, path)]


def install(content: bytes) -> list[Path]:
    """Write the plug-ins and return their files; refuse to replace files that are not alphamf's."""
    found = _files()
    for root, path in found:
        refuse_links(path, root)
        if os.path.lexists(path) and not _is_ours(root, path):
            raise AlphaMFError(f"{printable_name(path)} is not alphamf's; remove or rename it")
    for root, path in found:
        library = path.name == NAME
        text = files("alphamf.native") / "lv2" / path.name
        make_folder(path, root if root.exists() else None)
        with atomic_file(path, mode=0o777 if library else 0o666, within=root) as part:
            part.write_bytes(content if library else text.read_bytes())
    return [path for _, path in found[: len(FILES)]]


def remove() -> list[Path]:
    """Delete the plug-ins and the folders that this leaves empty; return the deleted plug-ins."""
    gone = installed()
    for root, path in [each for each in _files() if _is_ours(*each)]:
        try:
            path.unlink()
            for folder in path.relative_to(root).parents[:-1]:
                if not any((root / folder).iterdir()):
                    (root / folder).rmdir()
        except OSError as error:
            name = printable_name(error.filename or path)
            raise AlphaMFError(f"cannot delete {name}: {reason(error)}") from error
    return gone
