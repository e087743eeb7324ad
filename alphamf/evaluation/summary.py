"""The result of a method on a clip, and means, groups and differences of results."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from types import UnionType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import numpy as np

from alphamf.audio.speech_level import QUIET_PAUSES_DB
from alphamf.tools.tables import mean_and_error


@dataclass(frozen=True)
class Result:
    """The scores and costs of a method on a clip; a line of ``results.jsonl``."""

    version: str  # Version of alphamf
    key: str  # Hash of everything that the result depends on
    method: str  # As the user named it, ``NAME`` or ``NAME@MODEL``
    # noisy, clean: files, relative to a folder that contains all of the kind, with forward slashes;
    # ``clean`` is empty where no clean file belongs to the noisy one.
    noisy: str
    clean: str
    # noise, snr: name of the noise and SNR in dB, None if they are not known.
    noise: str | None
    snr: float | None
    seed: int  # Seed of the method
    # rate, seconds: sampling rate in Hz, and length of the clip in seconds; None after an error.
    rate: int | None = None
    seconds: float | None = None
    # By how many dB the pauses of the clean file lie below its speech, as from
    # `alphamf.audio.speech_level.pause_depth`; None if that is not known.
    pause_depth: float | None = None
    # Scores by their names in `SCORES`; None if a score is undefined. Empty after an error.
    scores: dict[str, float | None] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)  # For each score that is None, the reason
    # cpu_seconds: CPU time of the method. real_time_factor: its wall-clock seconds per second of
    # sound. Both are None if it was not run, or failed.
    cpu_seconds: float | None = None
    real_time_factor: float | None = None
    # Peak resident memory of the process that ran the method, in 10^6 bytes; None if unknown, as
    # for a method that starts another process.
    peak_memory_mb: float | None = None
    # Denoised file, relative to the folder of results, with forward slashes; None after an error.
    audio: str | None = None
    error: str | None = None  # Why there is no result, in one sentence; None if there is one

    @property
    def reference(self) -> str | None:
        """The clean file's pauses in words, as from `describe_pauses`; None if unknown."""
        return None if self.pause_depth is None else describe_pauses(self.pause_depth)

    @classmethod
    def from_json(cls, item: Mapping[str, Any]) -> Result:
        """Return the result in an object of `to_json`; raise a TypeError or KeyError for others."""
        for name, kind in get_type_hints(cls).items():
            if not _is(item[name], kind):
                raise TypeError(f"{name} is not a {kind}")
        return cls(**{each.name: item[each.name] for each in fields(cls)})

    def to_json(self) -> dict[str, Any]:
        """Return the fields as an object of JSON values."""
        return asdict(self)


def describe_pauses(depth: float) -> str:
    """Return in words whether pauses lie at least `QUIET_PAUSES_DB` below speech; `depth` in dB."""
    side = "at least" if depth >= QUIET_PAUSES_DB else "less than"
    return f"pauses {side} {QUIET_PAUSES_DB:g} dB down"


def _is(value: Any, kind: Any) -> bool:
    """Return whether a JSON value has the type of a field of `Result`."""
    if get_origin(kind) is UnionType:
        return any(_is(value, each) for each in get_args(kind))
    if get_origin(kind) is dict:
        _, inner = get_args(kind)
        return isinstance(value, dict) and all(_is(item, inner) for item in value.values())
    if kind is float:
        return type(value) in (int, float) and abs(value) < sys.float_info.max
    return type(value) is kind


class Score(NamedTuple):
    """Format of a score in tables: label, unit, decimals and which way is better."""

    # label, unit: for headings.
    label: str
    unit: str
    decimals: int  # Digits after the point
    higher_is_better: bool  # Whether higher values are better

    @property
    def heading(self) -> str:
        """Label and unit, for the head of a column."""
        return f"{self.label} {self.unit}".rstrip()


SCORES = {
    "si_sdr": Score("SI-SDR", "dB", 2, True),
    "si_sdr_gain": Score("SI-SDR gain", "dB", 2, True),
    "sdr": Score("SDR", "dB", 2, True),
    "sir": Score("SIR", "dB", 2, True),
    "sar": Score("SAR", "dB", 2, True),
    "stoi": Score("STOI", "", 3, True),
    "estoi": Score("ESTOI", "", 3, True),
    "pesq": Score("PESQ", "", 3, True),
    "wer": Score("WER", "%", 1, False),
    "dnsmos_sig": Score("DNSMOS SIG", "", 2, True),
    "dnsmos_bak": Score("DNSMOS BAK", "", 2, True),
    "dnsmos_ovr": Score("DNSMOS OVR", "", 2, True),
}
"""Every score, by its name in `Result.scores`."""

EXTRA = ("wer", "dnsmos_sig", "dnsmos_bak", "dnsmos_ovr")
"""Scores that exist only if they were requested."""

USUAL = tuple(name for name in SCORES if name not in EXTRA)
"""Scores that every evaluation has: those of `SCORES` that are not in `EXTRA`."""

FEWEST = 10
"""Minimum number of clips for an interval: with fewer, the bootstrap interval is too narrow."""

BREAKDOWN = ("si_sdr", "pesq", "estoi")
"""Scores that have tables by noise, by input SNR and by clean file."""

HISS = (
    "Hiss in a clean file counts as speech, so a denoiser that removes it is rated lower. First "
    f"read the scores of clips whose pauses lie at least {QUIET_PAUSES_DB:g} dB below the speech."
)
"""Note about the tables by clean file."""


class Difference(NamedTuple):
    """The mean difference of a score between two methods, and its interval of 95 per cent."""

    mean: float  # NaN without clips
    # low, high: ends of the interval; NaN with fewer than `FEWEST` clips.
    low: float
    high: float
    clips: int  # Number of clips for which both methods have the score


def groups(
    results: Iterable[Result], by: Sequence[str] = ("method",)
) -> dict[tuple[Any, ...], list[Result]]:
    """Group results by some of their fields, in order of first appearance."""
    found: dict[tuple[Any, ...], list[Result]] = {}
    for result in results:
        found.setdefault(tuple(getattr(result, name) for name in by), []).append(result)
    return found


def clips(results: Iterable[Result], score: str | None = None) -> frozenset[tuple[Any, ...]]:
    """Return the clips of results, or only those for which a score is defined.

    A clip is (noisy, clean, seed), so the same files count again under another seed.
    """
    return frozenset(
        (result.noisy, result.clean, result.seed)
        for result in results
        if score is None or result.scores.get(score) is not None
    )


class Failure(NamedTuple):
    """An error on a clip, and the methods in which it occurred."""

    clip: str  # Name of the noisy file
    sentence: str  # The error
    methods: str  # Names of the methods that failed with it, or "all"
    runs: int  # How often it occurred


def failures(results: Sequence[Result]) -> list[Failure]:
    """Return the errors, one per clip and message."""
    everything = {result.method for result in results}
    failed = groups((r for r in results if r.error is not None), ("noisy", "error"))
    found = []
    for (clip, sentence), group in failed.items():
        methods = [result.method for result in group]
        who = "all" if set(methods) == everything else ", ".join(methods)
        found.append(Failure(clip, sentence, who, len(group)))
    return found


def costs(results: Iterable[Result]) -> tuple[float, float]:
    """Return CPU and wall-clock seconds per second of sound; NaN if unknown.

    Both are ratios of sums over the clips, so that clips are weighted by their length.
    """
    known = [(result, result.seconds) for result in results if result.seconds]
    cpu = [(r.cpu_seconds, s) for r, s in known if r.cpu_seconds is not None]
    wall = [(r.real_time_factor * s, s) for r, s in known if r.real_time_factor is not None]
    return _quotient(cpu), _quotient(wall)


def _quotient(pairs: Sequence[tuple[float, float]]) -> float:
    """Return the sum of the first numbers over the sum of the second ones; NaN without pairs."""
    return sum(a for a, _ in pairs) / sum(b for _, b in pairs) if pairs else math.nan


def values(results: Iterable[Result], score: str) -> list[float]:
    """Return the defined values of a score."""
    found = (result.scores.get(score) for result in results)
    return [value for value in found if value is not None]


def present_scores(results: Iterable[Result]) -> list[str]:
    """Return the names of the scores to show; those in `EXTRA` only if a result has them."""
    there = {name for result in results for name in result.scores}
    return [name for name in SCORES if name in USUAL or name in there]


def paired_difference(
    results: Iterable[Result],
    method: str,
    other: str,
    score: str,
    *,
    draws: int = 2000,
) -> Difference:
    """Return the mean difference of two methods in a score, over the clips for which both have it.

    The interval of 95 per cent comes from a bootstrap over the clips, and needs `FEWEST` of them.

    Parameters
    ----------
    results
        Results of any methods.
    method, other
        The difference is the first one's score minus the second one's.
    score
        A name in `SCORES`.
    draws
        Number of bootstrap samples.

    Returns
    -------
    Difference

    Examples
    --------
    >>> from alphamf.evaluation.summary import Result
    >>> results = [
    ...     Result("", "", name, f"{clip}.wav", "", None, None, 0, scores={"si_sdr": clip + more})
    ...     for clip in range(20)
    ...     for name, more in [("noisy", 0.0), ("fast", 5.0)]
    ... ]
    >>> found = paired_difference(results, "fast", "noisy", "si_sdr")
    >>> found.mean, found.low, found.high, found.clips
    (5.0, 5.0, 5.0, 20)
    """
    found: dict[tuple[str, str, int], dict[str, float]] = {}
    for result in results:
        value = result.scores.get(score)
        if value is not None and result.method in (method, other):
            found.setdefault((result.noisy, result.clean, result.seed), {})[result.method] = value
    both = [pair[method] - pair[other] for pair in found.values() if {method, other} <= set(pair)]
    differences = np.array(both)
    count = len(differences)
    mean, _ = mean_and_error(differences)
    if count < FEWEST:
        return Difference(mean, math.nan, math.nan, count)
    rng = np.random.default_rng(0)
    means = [differences[rng.integers(count, size=count)].mean() for _ in range(draws)]
    low, high = np.percentile(means, [2.5, 97.5])
    return Difference(mean, float(low), float(high), count)
