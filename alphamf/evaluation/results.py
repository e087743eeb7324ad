"""The result of a method on a clip, and its form as a line of JSON."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from alphamf.audio.speech_level import QUIET_PAUSES_DB


@dataclass(frozen=True)
class Result:
    """The scores and costs of a method on a clip; a line of ``results.jsonl``."""

    version: str  # Version of alphamf
    key: str  # Hash of everything that the result depends on
    method: str  # As the user named it, ``NAME`` or ``NAME@MODEL``
    # noisy, clean: files, relative to the folders that the user named, with forward slashes;
    # ``clean`` is empty where no clean file belongs to the noisy one.
    noisy: str
    clean: str
    # noise, snr: name of the noise and SNR in dB, None if they are not known.
    noise: str | None
    snr: float | None
    seed: int  # Seed of the method
    # rate, seconds: sampling rate in Hz and length of the clip; None if it could not be read.
    rate: int | None = None
    seconds: float | None = None
    # By how many dB the pauses of the clean file lie below its speech, as from
    # `alphamf.audio.speech_level.pause_depth`; None if that is not known.
    pause_depth: float | None = None
    # Name in `alphamf.evaluation.summary.SCORES` to value, None for an undefined score; empty after
    # an error.
    scores: dict[str, float | None] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)  # For each score that is None, the reason
    # cpu_seconds, real_time_factor: CPU seconds, and wall-clock seconds per second of sound, of the
    # method alone.
    cpu_seconds: float | None = None
    real_time_factor: float | None = None
    # Largest resident memory of its process meanwhile, in 10^6 bytes; None if it worked in another
    # process.
    peak_memory_mb: float | None = None
    # Denoised file, relative to the folder of results, with forward slashes.
    audio: str | None = None
    error: str | None = None  # Why there is no result, in one sentence

    @property
    def reference(self) -> str | None:
        """The clean file's pauses in words, as from `describe_pauses`; None if unknown."""
        return None if self.pause_depth is None else describe_pauses(self.pause_depth)

    @classmethod
    def from_json(cls, item: Mapping[str, Any]) -> Result:
        """Return the result for an object made by `to_json`."""
        item = {"pause_depth": None, **item}  # older lines do not have it
        for name, kind in get_type_hints(cls).items():
            if not _is(item[name], kind):
                raise TypeError(f"{name} is not a {kind}")
        return cls(**{each.name: item[each.name] for each in fields(cls)})

    def to_json(self) -> dict[str, Any]:
        """Return the fields as an object of JSON values."""
        return asdict(self)


def describe_pauses(depth: float) -> str:
    """Return in words whether pauses are quiet enough for a reference: `QUIET_PAUSES_DB` or not."""
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
