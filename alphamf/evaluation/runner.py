"""What there is to do, and results as they come: one JSON line each, none lost, none done twice."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from alphamf.errors import AlphaMFError
from alphamf.evaluation.methods import Entry
from alphamf.evaluation.pairs import Pair
from alphamf.tools import jsonlines
from alphamf.tools.files import lock, reason, shown

LINES = "results.jsonl"


@dataclass(frozen=True)
class Result:
    """What a method made of a clip; a line of ``results.jsonl``.

    Attributes
    ----------
    version
        Of alphamf.
    key
        What tells this result from all others: a hash of all that it depends on.
    method
        As the user named it, ``NAME`` or ``NAME@MODEL``.
    noisy, clean
        Files, relative to the folders that the user named, with forward slashes; ``clean`` is
        empty where no clean file belongs to the noisy one.
    noise, snr
        Name and level in dB of the noise, None where nothing tells.
    seed
        Of the method.
    rate, seconds
        Sampling rate in Hz and length of the clip; None where it could not be read.
    scores
        Name in `alphamf.evaluation.summary.SCORES` to value, None for a score that cannot be had;
        empty where there is an error.
    reasons
        Why, for each score that is None.
    cpu_seconds, real_time_factor
        Seconds of processor time, and of a clock per second of sound, of the method alone.
    peak_memory_mb
        Largest resident memory of its process meanwhile, in 10^6 bytes; None where it worked in
        another process.
    audio
        Denoised file, relative to the folder of results, with forward slashes.
    error
        Why there is no result, in one sentence.
    """

    version: str
    key: str
    method: str
    noisy: str
    clean: str
    noise: str | None
    snr: float | None
    seed: int
    rate: int | None = None
    seconds: float | None = None
    scores: dict[str, float | None] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    cpu_seconds: float | None = None
    real_time_factor: float | None = None
    peak_memory_mb: float | None = None
    audio: str | None = None
    error: str | None = None

    @classmethod
    def from_json(cls, item: Mapping[str, Any]) -> Result:
        """Make a result of the object that `to_json` gave; a field that is absent is an error."""
        return cls(**{each.name: item[each.name] for each in fields(cls)})

    def to_json(self) -> dict[str, Any]:
        """Return the fields as an object of JSON values."""
        return asdict(self)


class Job(NamedTuple):
    """One clip for one method.

    Attributes
    ----------
    pair
        The clip's files.
    model
        Dictionary of the method.
    output
        Folder of results.
    result
        What is known of the result beforehand.
    originals
        Whether the noisy and the clean sound are to be kept as well: by one job a clip.
    """

    pair: Pair
    model: str
    output: str
    result: Result
    originals: bool = False


def audio_name(method: str, name: str) -> str:
    """Return where audio lies below the folder of results, with forward slashes.

    Parameters
    ----------
    method
        As in `Result`; ``noisy`` and ``clean`` are always there, for `Result.noisy` and
        `Result.clean`.
    name
        `Result.noisy`, or `Result.clean` of ``clean``.
    """
    safe = re.sub(r"[^\w.@+-]", "_", method)
    if safe != method:
        digest = hashlib.sha256(method.encode(errors="surrogateescape")).hexdigest()
        safe += f"-{digest[:6]}"
    return str(PurePosixPath("audio", safe, name).with_suffix(".flac"))


def plan(pairs: Iterable[Pair], entries: Sequence[Entry], output: str, *, seed: int) -> list[Job]:
    """List the jobs, clip by clip: every clip for every method."""
    jobs = []
    digest = cache(_digest)
    for pair in pairs:
        contents = digest(pair.noisy), digest(pair.clean)
        for entry in entries:
            parts = (version("alphamf"), entry.spec, entry.identity, seed, *pair[2:], *contents)
            result = Result(
                version=version("alphamf"),
                key=hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16],
                method=entry.spec,
                noisy=pair.noisy_name,
                clean=pair.clean_name,
                noise=pair.noise,
                snr=pair.snr,
                seed=seed,
                error=pair.problem,
            )
            jobs.append(Job(pair, entry.model, output, result))
    return jobs


@contextmanager
def locked(output: Path) -> Iterator[None]:
    """Make the folder of results if need be, and keep other runs out of it.

    Raises
    ------
    AlphaMFError
        Another run works there, or it cannot be written to.
    """
    try:
        output.mkdir(parents=True, exist_ok=True)
        file = (output / LINES).open("ab")
    except OSError as error:
        raise AlphaMFError(f"--output {shown(output)} cannot be used: {reason(error)}") from error
    with file:
        try:
            lock(file.fileno())
        except BlockingIOError as error:
            sentence = f"another evaluation is writing to --output {shown(output)}"
            raise AlphaMFError(sentence) from error
        yield


def run(
    jobs: Sequence[Job], output: Path, each: Callable[[Sequence[Job]], Iterable[Result]]
) -> Iterator[Result]:
    """Yield the results of all jobs: first those that the folder holds, then the others.

    What has failed before is tried again.

    Parameters
    ----------
    jobs
        As `plan` lists them.
    output
        The folder, `locked` by the caller.
    each
        Does jobs and yields their results, in any order.

    Raises
    ------
    AlphaMFError
        A result cannot be kept.
    """
    kept = _read(output / LINES)
    todo: list[Job] = []
    clips: set[str] = set()
    for job in jobs:
        result = kept.get(job.result.key)
        if job.result.error is not None:
            yield _keep(output, job.result, result)
        elif result is not None and result.error is None and _sounds(output, result):
            yield result
        else:
            todo.append(job._replace(originals=job.pair.noisy not in clips))
            clips.add(job.pair.noisy)
    for result in each(todo):
        yield _keep(output, result, kept.get(result.key))


def _read(path: Path) -> dict[str, Result]:
    """Return the last result of every key, if no other has since put its sound in its place."""
    kept: dict[str, Result] = {}
    owners: dict[str | None, str] = {}
    for item in jsonlines.read(path):
        with suppress(KeyError):
            result = Result.from_json(item)
            kept[result.key] = result
            owners[result.audio] = result.key
    return {k: each for k, each in kept.items() if each.error or owners[each.audio] == k}


def _keep(output: Path, result: Result, before: Result | None) -> Result:
    if result != before:
        try:
            jsonlines.append(output / LINES, result.to_json())
        except OSError as error:
            sentence = f"{shown(output / LINES)} cannot be written: {reason(error)}"
            raise AlphaMFError(sentence) from error
    return result


def _sounds(output: Path, result: Result) -> bool:
    """Whether the sounds of a result are still there."""
    names = (result.audio, audio_name("noisy", result.noisy), audio_name("clean", result.clean))
    return all(name is not None and (output / name).is_file() for name in names)


def _digest(path: str) -> str:
    """Return a hash of a file's content, empty where it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
