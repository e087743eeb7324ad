"""Output files of other systems: a folder of denoised sound, matched with the clips by name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import PurePosixPath

from alphamf.audio.formats import SUFFIXES
from alphamf.errors import AlphaMFError
from alphamf.tools.files import printable_name
from alphamf.tools.paths import real_path

ENDINGS = (".denoised", "_denoised", "-denoised", "_enhanced", "-enhanced", ".enhanced")
"""Suffixes that systems add to the names of their outputs."""


class Folder:
    """Denoised files of a system.

    A clip's file has the noisy file's name and its folders below this one, or only its name if a
    single file has it; suffixes may differ, and stems may end in one of `ENDINGS`.
    """

    def __init__(self, path: str) -> None:
        if not os.path.isdir(path):
            raise AlphaMFError(f"{printable_name(path)} is not a folder")
        self.path = path
        self._places: dict[str, list[str]] = {}
        self._names: dict[str, list[str]] = {}
        root = real_path(path)
        for file in _audio(root):
            place = PurePosixPath(os.path.relpath(file, root).replace(os.sep, "/"))
            stem = _stem(place)
            self._places.setdefault(str(place.with_name(stem)), []).append(file)
            self._names.setdefault(stem, []).append(file)
        if not self._names:
            raise AlphaMFError(f"{printable_name(path)} contains no audio files")

    def file(self, noisy: str) -> tuple[str, str | None]:
        """Return the file for a clip, or the reason why there is none."""
        place = PurePosixPath(noisy)
        stem = place.stem
        found = self._places.get(str(place.with_name(stem))) or self._names.get(stem) or []
        if len(found) == 1:
            return found[0], None
        which = "more than one file" if found else "no file"
        return "", f"{printable_name(self.path)} holds {which} for {printable_name(noisy)}"


def _audio(root: str) -> Iterator[str]:
    """Yield the audio files of a folder, including those with names chosen by `alphamf denoise`."""
    for folder, below, names in os.walk(root):
        below.sort()
        for name in sorted(names):
            if os.path.splitext(name)[1].lower() in SUFFIXES and not name.startswith("."):
                yield os.path.join(folder, name)


def _stem(place: PurePosixPath) -> str:
    ending = next((end for end in ENDINGS if place.stem.endswith(end)), "")
    return place.stem.removesuffix(ending)
