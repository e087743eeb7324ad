"""Extract speech, noise and SNR from the name of a noisy file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

_SNR = re.compile(
    r"(?<![a-z0-9])snr?(?:[ _]?db)?[ _=]?(?P<after>-?\d+(?:\.\d+)?)(?:[ _]?db)?(?![a-z0-9])"
    r"|(?P<before>(?:(?<![a-z0-9])-)?(?<![\d.])\d+(?:\.\d+)?)[ _]?db(?![a-z0-9])",
    re.IGNORECASE,
)
"""``sn5``, ``snr-5``, ``SNRdb_2.5``; ``5dB``, ``-5 dB``; a dash after a word is a separator."""

_NOISE = re.compile(r"[^\W\d_]+(?:[ _-][^\W\d_]+)*\d{0,2}")
_ANY = re.compile(r".+")
_ROLE = re.compile(r"^(?:clean|noisy)\d*[ ._-]+|[ ._-]+(?:clean|noisy)\d*$", re.IGNORECASE)
_JOINTS = " ._-"


def core(name: str) -> str:
    """Return a file's stem in lower case, without the words clean and noisy at its ends."""
    return _core(name).lower()


def speeches(name: str) -> Iterator[str]:
    """Yield candidates for the `core` of the clean file, best first."""
    stem = core(name)
    yield stem
    joints = [k for k, letter in enumerate(stem) if letter in _JOINTS]
    for k in reversed(joints):
        yield stem[:k]
    for k in joints:
        # A number at the end can also be the level of the noise, or a count.
        if any(letter.isalpha() for letter in stem[k + 1 :]):
            yield stem[k + 1 :]


def condition(noisy: str, clean: str = "") -> tuple[str | None, float | None]:
    """Return the name of the noise and the SNR in dB; None for missing ones.

    They stand next to each other in the name of the file or of a folder: ``car_5dB/sp01.flac``,
    ``sp01_car_sn5.wav``.
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
            # A file's name has other parts as well; a folder's is that of the noise.
            wanted = _NOISE if part is stem else _ANY
            noise = next((side for side in sides if wanted.fullmatch(side)), None)
            return noise, float(found["after"] or found["before"])
    return None, None


def _core(name: str) -> str:
    stem = os.path.splitext(name.split("/")[-1])[0]
    return _ROLE.sub("", stem) or stem
