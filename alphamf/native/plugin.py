"""Install the plug-ins: the engine and its weights in one file, where hosts look for it."""

from __future__ import annotations

import os
import struct
import sys
from importlib.resources import files
from pathlib import Path

from alphamf.errors import AlphaMFError
from alphamf.learnt.packed import aligned
from alphamf.native.engine import library_file
from alphamf.tools.files import atomic_file, make_folder, printable_name, reason

TRAILER = struct.Struct("<QQ16s")
"""As ``struct trailer`` of ``plugin.c``."""

MAGIC = b"alphamf plug-in"
NAME, BUNDLE = "alphamf.so", "alphamf.lv2"
TEXTS = "manifest.ttl", "alphamf.ttl"


def plugin(wide: bytes, narrow: bytes) -> bytes:
    """Return the content of the file that is both plug-ins."""
    file = library_file()
    if file is None:
        raise AlphaMFError(
            "alphamf was installed without a C compiler (GCC or Clang), so that there is no "
            "plug-in; install a compiler, and alphamf again"
        )
    library = aligned(Path(file).read_bytes())
    return library + wide + narrow + TRAILER.pack(len(wide), len(narrow), MAGIC)


def places() -> dict[str, Path]:
    """Return the files of the plug-ins, LADSPA's and LV2's, in the user's folders.

    They are the first of LADSPA_PATH and LV2_PATH, or the ones that the systems have for a user.
    """
    home = Path.home()
    users = {"LADSPA": home / ".ladspa", "LV2": home / ".lv2"}
    if sys.platform == "darwin":
        users = {kind: home / "Library" / "Audio" / "Plug-Ins" / kind for kind in users}
    for kind in users:
        first = os.environ.get(f"{kind}_PATH", "").split(os.pathsep)[0]
        if first:
            users[kind] = Path(first)
    return {"LADSPA": users["LADSPA"] / NAME, "LV2": users["LV2"] / BUNDLE / NAME}


def install(content: bytes) -> list[Path]:
    """Write the plug-ins to their `places`, and return these; a file that exists is replaced."""
    found = places()
    for place in found.values():
        make_folder(place)
        with atomic_file(place, mode=0o777) as path:
            path.write_bytes(content)
    for name in TEXTS:
        with atomic_file(found["LV2"].parent / name) as path:
            path.write_bytes((files("alphamf.native") / "lv2" / name).read_bytes())
    return list(found.values())


def remove() -> list[Path]:
    """Delete the plug-ins from their `places`, and return those that were there."""
    found = places()
    gone = [place for place in found.values() if place.exists()]
    bundle = found["LV2"].parent
    try:
        for place in (*found.values(), *(bundle / name for name in TEXTS)):
            place.unlink(missing_ok=True)
        if bundle.is_dir() and not any(bundle.iterdir()):
            bundle.rmdir()
    except OSError as error:
        name = printable_name(error.filename or bundle)
        raise AlphaMFError(f"cannot delete {name}: {reason(error)}") from error
    return gone
