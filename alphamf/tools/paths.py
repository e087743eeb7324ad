"""Which file a path leads to: one file may have several paths."""

from __future__ import annotations

import os
import unicodedata
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from alphamf.errors import AlphaMFError


class Identity(NamedTuple):
    """A file that exists or may be made, however its path is written.

    Attributes
    ----------
    device, folder
        Numbers of the device and of the nearest folder that exists, the same under each mount.
    name
        The rest of the path, in lower case where that folder ignores case.
    """

    device: int
    folder: int
    name: str


def current_folder() -> str:
    """Return the current folder.

    Raises
    ------
    AlphaMFError
        It was removed.
    """
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise AlphaMFError("the current folder was removed; change to another one") from None


def real_path(path: str | os.PathLike[str]) -> str:
    """Return a path without links; a relative one stays where the current folder was removed."""
    try:
        return os.path.realpath(path)
    except FileNotFoundError:
        return os.fspath(path)


def identify(path: str | os.PathLike[str]) -> Identity:
    """Return which file a path leads to, where it is a link, too."""
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
    """Whether a folder ignores case: one of its files is there under a name that is not listed."""
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
    """Whether a path leads to somewhere below a folder, under whichever name of that."""
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
