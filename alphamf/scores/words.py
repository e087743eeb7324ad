"""Word error rate."""

from __future__ import annotations

import re
from collections.abc import Sequence

from alphamf.errors import AlphaMFError


def words(text: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation except apostrophes."""
    return re.findall(r"[^\W_]+(?:'[^\W_]+)*", text.lower().replace("’", "'"))  # noqa: RUF001


def error_rate(reference: Sequence[str], transcript: Sequence[str]) -> float:
    """Return the minimum number of substitutions, insertions and deletions per reference word."""
    if not reference:
        raise AlphaMFError("the clean speech contains no words to recognise")
    row = list(range(len(transcript) + 1))
    for k, word in enumerate(reference, 1):
        before, row[0] = row[0], k
        for j, other in enumerate(transcript, 1):
            best = min(row[j] + 1, row[j - 1] + 1, before + (word != other))
            before, row[j] = row[j], best
    return row[-1] / len(reference)
