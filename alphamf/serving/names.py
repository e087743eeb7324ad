"""Names of recordings: shown to the user and sent back, never used as paths."""

from __future__ import annotations

import os
from urllib.parse import quote

from alphamf.audio.formats import final_name
from alphamf.audio.search import InputFile
from alphamf.batch.outputs import derived_name

LONGEST = 120
"""Maximum number of characters of a name."""


def sanitize_name(text: str) -> str:
    """Return the last part of a file name sent by a browser, without unprintable characters."""
    name = text.replace("\\", "/").rsplit("/", 1)[-1]
    name = "".join(c for c in name if c.isprintable() and c not in '<>:"|?*').strip()
    stem, ending = os.path.splitext(name)
    stem = stem.strip(". ")[: LONGEST - len(ending[:16])]
    return f"{stem or 'recording'}{ending[:16]}"


def unnamed(name: str) -> str:
    """Return a name that tells nothing but the extension."""
    return f"recording{os.path.splitext(name)[1]}"


def result_name(name: str, format: str, ending: str | None = None) -> str:
    """Return the name of the denoised file, as ``alphamf denoise`` would choose it."""
    derived = final_name(derived_name(InputFile(name, name), None), format)
    return derived if ending is None else os.path.splitext(derived)[0] + ending


def distinct_names(names: list[str]) -> list[str]:
    """Make the names of an archive's members distinct."""
    taken: set[str] = set()
    for k, name in enumerate(names):
        stem, ending = os.path.splitext(name)
        number = 2
        while names[k].casefold() in taken:
            names[k] = f"{stem} ({number}){ending}"
            number += 1
        taken.add(names[k].casefold())
    return names


def attachment(name: str) -> str:
    """Return the value of a Content-Disposition header (RFC 6266)."""
    plain = "".join(c if c.isascii() and c not in '"\\' else "_" for c in name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
