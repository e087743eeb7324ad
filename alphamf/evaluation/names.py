"""What the name of a noisy file tells: which speech, which noise, and how loud."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

_SNR = re.compile(
    r"(?<![a-z0-9])snr?(?:[ _]?db)?[ _=]?(?P<after>-?\d+(?:\.\d+)?)(?:[ _]?db)?(?![a-z0-9])"
    r"|(?P<before>(?:(?<![a-z0-9])-)?(?<![\d.])\d+(?:\.\d+)?)[ _]?db(?![a-z0-9])",
    re.IGNORECASE,
)
"""``sn5``, ``snr-5``, ``SNRdb_2.5``; ``5dB``, ``-5 dB``, where a dash after a word only joins."""

_NOISE = re.compile(r"[^\W\d_]+(?:[ _-][^\W\d_]+)*\d{0,2}")
_ANY = re.compile(r".+")
_ROLE = re.compile(r"^(?:clean|noisy)\d*[ ._-]+|[ ._-]+(?:clean|noisy)\d*$", re.IGNORECASE)
_JOINTS = " ._-"


def core(name: str) -> str:
    """Return a file's stem in lower case, without the words clean and noisy at its ends."""
    return _core(name).lower()


def speeches(name: str) -> Iterator[str]:
    """Yield what the `core` of the clean file may be, the best guess first."""
    stem = core(name)
    yield stem
    joints = [k for k, letter in enumerate(stem) if letter in _JOINTS]
    for k in reversed(joints):
        yield stem[:k]
    for k in joints:
        # A number at the end may as well be the level of the noise, or a count.
        if any(letter.isalpha() for letter in stem[k + 1 :]):
            yield stem[k + 1 :]


def condition(noisy: str, clean: str = "") -> tuple[str | None, float | None]:
    """Return the name of the noise and its level in dB, None for what the names do not tell.

    They stand side by side, in the file's name or in that of a folder: ``car_5dB/sp01.flac``,
    ``sp01_car_sn5.wav``.

    Parameters
    ----------
    noisy, clean
        Names of the files, with forward slashes; `clean` is empty where it is not known.
    """
    stem, speech = _core(noisy), core(clean)
    if speech and stem.lower().startswith(speech):
        stem = stem[len(speech) :]
    elif speech and stem.lower().endswith(speech):
        stem = stem[: -len(speech)]
    for part in (stem, *reversed(noisy.split("/")[:-1])):
        found = _SNR.search(part)
        if found is not None:
            sides = part[: found.start()].strip(_JOINTS), part[found.end() :].strip(_JOINTS)
            # In a file's name there may be anything; the name of a folder stands for all in it.
            wanted = _NOISE if part is stem else _ANY
            noise = next((side for side in sides if wanted.fullmatch(side)), None)
            return noise, float(found["after"] or found["before"])
    return None, None


def _core(name: str) -> str:
    stem = os.path.splitext(name.split("/")[-1])[0]
    return _ROLE.sub("", stem) or stem
