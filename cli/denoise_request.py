"""Turn the options of ``alphamf denoise`` into a request to the library."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from alphamf.batch.inputs import STREAM, Plan, check_extra, parse_share
from alphamf.errors import AlphaMFError
from alphamf.tools.extras import require_package

if TYPE_CHECKING:
    from alphamf.batch.part import Part
    from alphamf.batch.request import Observe
    from alphamf.denoising.hints import TimeRanges
    from alphamf.denoising.settings import Settings


STDIN = "standard input"
STDOUT = "standard output"
REAL_TIME = "a pipe in real time"
NOT_REAL_TIME = "no pipe in real time"
ELSEWHERE = "a cluster of other machines"
"""Conditions that depend on the values of options, as `CONFLICTS` names them."""


class Conflict(NamedTuple):
    """An option or condition, those that it cannot be combined with, and the error message.

    A name with a value, such as ``device=cuda``, means the option with that value only.
    """

    option: str
    others: tuple[str, ...]
    sentence: str = "{other} cannot be combined with {option}"


CONFLICTS = (
    Conflict(
        "trim_silence",
        ("start", "end"),
        "{option} needs the whole recording and cannot be combined with `start` or `end`",
    ),
    Conflict(
        "deterministic",
        ("device=cuda", "device=auto"),
        "{option} works on the CPU only, not with {other}",
    ),
    Conflict(
        "deterministic",
        (ELSEWHERE,),
        "{option} works on this machine only, not with `cluster`",
    ),
    Conflict(
        "cluster",
        (STDIN, STDOUT),
        "{option} needs files; it cannot use standard input or output (-)",
    ),
    Conflict(
        "as_json",
        (STDOUT,),
        "`json` and audio cannot both be written to standard output; use `output` FILE",
    ),
    Conflict(
        "raw",
        (NOT_REAL_TIME,),
        "{option} needs a pipe at low latency: denoise - -o - --latency low",
    ),
    Conflict(
        "latency=low",
        (
            *("sampler", "steps", "chains", "network"),
            *("start", "end", "noise_from", "trim_silence", "dereverb"),
            *("plot", "uncertainty", "vad"),
            *("cluster", "device=cuda"),
        ),
    ),
    Conflict(
        REAL_TIME,
        ("noise_output", "normalize", "reference", "tag"),
        "{other} cannot be combined with `latency` low",
    ),
)


def check_conflicts(values: Mapping[str, Any]) -> None:
    """Raise an AlphaMFError if options cannot be combined."""
    given = _given(values)
    for conflict in CONFLICTS:
        for other in conflict.others:
            if {conflict.option, other} <= given:
                words = {"option": _words(conflict.option), "other": _words(other)}
                raise AlphaMFError(conflict.sentence.format(**words))


def is_real_time(values: Mapping[str, Any]) -> bool:
    """Return whether standard input is denoised to standard output in real time."""
    return REAL_TIME in _given(values)


def _given(values: Mapping[str, Any]) -> set[str]:
    """Return the options that are set, also as ``name=value``, and the conditions they fulfil."""
    given = {name for name, value in values.items() if value not in (None, False, [], ["none"])}
    given |= {f"{name}={value}" for name, value in values.items() if isinstance(value, str)}
    stdin = STREAM in values["inputs"]
    stdout = values["output"] == STREAM or (stdin and values["output"] is None)
    real_time = stdin and stdout and "latency=low" in given
    others = {
        STDIN: stdin,
        STDOUT: stdout,
        REAL_TIME: real_time,
        NOT_REAL_TIME: not real_time,
        ELSEWHERE: values["cluster"] not in (None, "local"),
    }
    return given | {words for words, holds in others.items() if holds}


def _words(option: str) -> str:
    name, _, value = option.partition("=")
    return f"`{name}` {value}".rstrip()


_TIME = re.compile(r"(?:(?:(\d+):)?(\d+):)?(\d+(?:\.\d*)?|\.\d+)s?")


def seconds(argument: str, text: str) -> float:
    """Return a time such as ``75`` or ``0:01:15.5`` in seconds; raise an AlphaMFError otherwise."""
    found = _TIME.fullmatch(text.strip())
    if found:
        hours, minutes, rest = (float(part or 0) for part in found.groups())
        time = 3600 * hours + 60 * minutes + rest
        if math.isfinite(time):
            return time
    raise AlphaMFError(f"`{argument}` must be a time such as 75, 1:15 or 0:01:15.5, not {text!r}")


def parse_range(argument: str, text: str) -> tuple[float, float]:
    """Return start and end of a range like ``0:00-0:03`` in seconds, or raise an AlphaMFError."""
    times = text.split("-")
    if len(times) != 2:
        raise AlphaMFError(f"`{argument}` must be a time range such as 0:00-0:03, not {text!r}")
    start, end = (seconds(argument, time) for time in times)
    return start, end


def settings(
    preset: str,
    *,
    strength: str | None,
    dereverb: str | None,
    network: list[str] | None,
    steps: int | None,
    **others: Any,
) -> Settings:
    """Return the preset with some settings replaced; None keeps the value of the preset."""
    from dataclasses import replace

    from alphamf.denoising.settings import PRESETS

    base = PRESETS[preset]
    values = {**others, "steps": steps}
    if strength is not None:
        values["dry"] = round(1 - parse_share("--strength", strength), 9)
    values["dereverb"] = dereverb and parse_share("--dereverb", dereverb)
    if steps is not None:
        values["keep"] = max(1, base.keep * steps // base.steps)
    if network not in (None, [], ["none"]):  # used with the preset `plain`, too
        values["refine"] = True
    return replace(base, **{name: value for name, value in values.items() if value is not None})


def networks(model: str, network: list[str] | None) -> tuple[str, str]:
    """Return the choices of refiner and second stage; check that they fit `model`, unless auto."""
    from alphamf.denoising.weights import find, roles

    refiner, second_stage = roles(network or [])
    if model != "auto":  # with auto, what fits depends on the rate of each file
        find(0, model, refiner=refiner, second_stage=second_stage)
    return refiner, second_stage


def part(start: str | None, end: str | None) -> Part | None:
    """Return the part to denoise, None for all; raise an AlphaMFError if it is invalid or empty."""
    from alphamf.batch.part import Part

    if start is None and end is None:
        return None
    first = 0.0 if start is None else seconds("start", start)
    last = None if end is None else seconds("end", end)
    if last is not None and last <= first:
        raise AlphaMFError(f"`end` {end} must be after `start` {start or 0}")
    return Part(first, last)


def noise_ranges(noise_from: list[str] | None) -> TimeRanges:
    """Return the time ranges with noise only, in seconds and in order."""
    from alphamf.denoising.hints import check_ranges

    texts = [text for each in noise_from or () for text in each.split(",")]
    return check_ranges([parse_range("noise_from", text) for text in texts])[0]


def observe(outputs: dict[str, Any], reference: str | None, *, overwrite: bool) -> Observe:
    """Return a function that makes the observer of a file, for additional outputs and scores."""
    from alphamf.batch.observers import Observers

    if reference is None:
        return partial(Observers, **outputs, replace=overwrite)
    from alphamf.cli.reference import ScoringObservers

    return partial(ScoringObservers, reference, **outputs, replace=overwrite)


def check_outputs(outputs: dict[str, str | None], files: Plan, *, overwrite: bool) -> None:
    """Raise an AlphaMFError if additional outputs cannot be written."""
    if outputs["plot"] is not None:
        require_package("`plot`", "matplotlib", "report")
    check_extra(outputs, files, overwrite=overwrite)
