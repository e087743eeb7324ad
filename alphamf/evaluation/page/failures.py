"""Errors and missing scores for the report page."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from alphamf.evaluation.results import Result
from alphamf.evaluation.summary import SCORES, groups


class Failure(NamedTuple):
    """An error on a clip."""

    clip: str  # Name of the noisy file
    sentence: str  # The error
    methods: str  # That failed with it
    runs: int  # How many there are


def failures(results: list[Result]) -> list[Failure]:
    """Return the errors, one per clip and message."""
    everything = {result.method for result in results}
    failed = groups((r for r in results if r.error is not None), ("noisy", "error"))
    return [
        Failure(
            clip,
            sentence,
            "all"
            if {r.method for r in group} == everything
            else ", ".join(r.method for r in group),
            len(group),
        )
        for (clip, sentence), group in failed.items()
    ]


class Reason(NamedTuple):
    """Why a score is missing."""

    score: str  # Its label
    sentence: str  # The reason in one of the cases
    runs: int  # Number of cases


def reasons(results: list[Result]) -> list[Reason]:
    """Return the reasons, most frequent first; those that differ only in numbers are merged."""
    seen: Counter[tuple[str, str]] = Counter()
    example: dict[tuple[str, str], str] = {}
    for result in results:
        for score, sentence in result.reasons.items():
            key = score, re.sub(r"\d+(\.\d+)?", "#", sentence)
            seen[key] += 1
            example.setdefault(key, sentence)
    return [
        Reason(SCORES[key[0]].label if key[0] in SCORES else key[0], example[key], runs)
        for key, runs in seen.most_common()
    ]
