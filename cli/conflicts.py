"""Options of ``alphamf denoise`` that cannot be combined: all of them, in one table.

`alphamf.batch.inputs.plan` refuses more: an output file with a folder for outputs, for example.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from alphamf.batch.inputs import STREAM
from alphamf.errors import AlphaMFError

STDIN = "standard input"
STDOUT = "standard output"
REAL_TIME = "a pipe in real time"
NOT_REAL_TIME = "no pipe in real time"
ELSEWHERE = "a cluster of other machines"
"""For the table: what several options amount to together."""


class Conflict(NamedTuple):
    """An option, the options that it cannot be combined with, and the error message.

    An option with a value, such as ``device=cuda``, is in conflict with that value only.
    """

    option: str
    others: tuple[str, ...]
    sentence: str = "{other} cannot be combined with {option}"


CONFLICTS = (
    Conflict("output", ("name",), "{option} and {other} both set the output name; give only one"),
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
    """Refuse options that cannot be combined."""
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
    """Return the options that are given, those with a value, and what they come to together."""
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
