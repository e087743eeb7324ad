"""Which file a path leads to: one file may have several paths."""

from __future__ import annotations

import os
import unicodedata
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from alphamf.errors import AlphaMFError


class Identity(NamedTuple):
    """The identity of a file that exists or could be created, however its path is written."""

    device: int  # Number of the device, the same under each mount
    folder: int  # Number of the nearest folder that exists
    name: str  # The rest of the path, in lower case where that folder ignores case


def current_folder() -> str:
    """Return the current folder."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise AlphaMFError("the current folder was removed; change to another one") from None


def real_path(path: str | os.PathLike[str]) -> str:
    """Return a path with links resolved, or the path itself if the current folder is gone."""
    try:
        return os.path.realpath(path)
    except FileNotFoundError:
        return os.fspath(path)


def identify(path: str | os.PathLike[str]) -> Identity:
    """Return the identity of the file that a path leads to; links are followed."""
    folder, name = os.path.split(real_path(path))
    while True:
        try:
            found = os.stat(folder or os.curdir)
            break
        except OSError:
            above, last = os.path.split(folder)
            if not last:  # the current folder was removed
                return Identity(0, 0, os.path.join(folder, name))
            folder, name = above, os.path.join(last, name)
    if _ignores_case(folder, found.st_dev, found.st_ino):
        name = unicodedata.normalize("NFC", name).casefold()
    return Identity(found.st_dev, found.st_ino, name)


@lru_cache(maxsize=1024)
def _ignores_case(folder: str, device: int, number: int) -> bool:
    """Return whether a folder ignores case: a file in it can be opened by an unlisted name."""
    for place in (Path(folder), *Path(folder).parents):
        try:
            names = set(os.listdir(place))
        except OSError:
            continue
        for name in names:
            other = name.swapcase()
            if name.isascii() and other not in names:
                return os.path.lexists(place / other)
    return False


def lies_in(path: str | os.PathLike[str], folder: str | os.PathLike[str]) -> bool:
    """Return whether a path leads into a folder, however both are written."""
    try:
        wanted = os.stat(folder)
    except OSError:
        return False
    for place in Path(real_path(path)).parents:
        try:
            if os.path.samestat(os.stat(place), wanted):
                return True
        except OSError:
            continue
    return False
