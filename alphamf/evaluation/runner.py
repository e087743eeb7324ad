"""Jobs of an evaluation, one per clip and method, and their results file."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cache
from importlib.metadata import version
from operator import attrgetter
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from alphamf.errors import AlphaMFError
from alphamf.evaluation.extra_scores import ExtraScores
from alphamf.evaluation.methods import Entry
from alphamf.evaluation.pairs import Pair
from alphamf.evaluation.summary import Result
from alphamf.tools import jobs
from alphamf.tools.files import Identity, identify, printable_name, reason

LINES = "results.jsonl"
MADE = ("settings.json", "results.csv", "summary.md", "report.html", "audio")
"""Names of the outputs of an evaluation besides `LINES`."""

NOTHING = ExtraScores()


class EvaluationJob(NamedTuple):
    """A clip, and the method that is evaluated on it."""

    pair: Pair  # The clip's files
    model: str  # The method's dictionary: a name, a file, or ``auto``
    output: str  # Folder of results
    result: Result  # The result as far as it is known beforehand
    estimate: str | None = None  # File of another system that is scored; None: the method is run.
    extra: ExtraScores = NOTHING  # Scores that are asked for beyond the usual ones
    # Which of the sounds ``clean`` and ``noisy`` this job also writes; of the jobs that share a
    # file, only one writes it.
    originals: tuple[str, ...] = ()


def audio_name(method: str, name: str) -> str:
    """Return the path of a FLAC file relative to the folder of results, with forward slashes."""
    safe = re.sub(r"[^\w.@+-]", "_", method)
    if safe != method:
        digest = hashlib.sha256(method.encode(errors="surrogateescape")).hexdigest()
        safe += f"-{digest[:6]}"
    return str(PurePosixPath("audio", safe, name).with_suffix(".flac"))


def plan(
    pairs: Iterable[Pair],
    entries: Sequence[Entry],
    output: str,
    *,
    seed: int,
    extra: ExtraScores = NOTHING,
) -> list[EvaluationJob]:
    """Return one job for each clip and method, clip by clip."""
    found = []
    digest = cache(_digest)
    for pair in pairs:
        (noisy, no_noisy), (clean, no_clean) = digest(pair.noisy), digest(pair.clean)
        for entry in entries:
            parts = [version("alphamf"), entry.spec, entry.identity, seed, *pair[2:], noisy, clean]
            estimate, problem = entry.folder.file(pair.noisy_name) if entry.folder else (None, None)
            if estimate:
                sound, problem = digest(estimate)
                parts.append(sound)
            parts += extra.key(pair.clean_name)
            result = Result(
                version=version("alphamf"),
                key=hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16],
                method=entry.spec,
                noisy=pair.noisy_name,
                clean=pair.clean_name,
                noise=pair.noise,
                snr=pair.snr,
                seed=seed,
                error=pair.problem or no_noisy or no_clean or problem,
            )
            found.append(EvaluationJob(pair, entry.model, output, result, estimate, extra))
    return found


def lock_results(output: Path) -> AbstractContextManager[None]:
    """Return a context manager that locks `output`, created if needed, or raises AlphaMFError."""
    sentence = f"another evaluation is writing to `output` {printable_name(output)}"
    return _file(output).lock(sentence, [output / name for name in MADE])


def check_inputs(todo: Iterable[EvaluationJob], output: Path) -> None:
    """Raise an AlphaMFError if a job would replace a file that one of the jobs reads."""
    inputs: dict[Identity, str] = {}
    names: dict[str, None] = {}
    for job in todo:
        files = (job.pair.noisy, job.pair.clean, job.estimate)
        inputs |= {identify(path): path for path in files if path}
        result = job.result
        sounds = ((result.method, result.noisy), ("noisy", result.noisy), ("clean", result.clean))
        names |= dict.fromkeys(audio_name(*sound) for sound in sounds if sound[1])
    for name in names:
        if (path := inputs.get(identify(output / name))) is not None:
            raise AlphaMFError(
                f"{printable_name(path)} would be overwritten by a result in `output` "
                f"{printable_name(output)}; choose another folder"
            )


def run(
    todo: Sequence[EvaluationJob],
    output: Path,
    each: Callable[[Sequence[EvaluationJob]], Iterable[Result]],
) -> Iterator[Result]:
    """Yield the results of all jobs: first the stored ones, then the new ones, which are stored.

    Jobs that failed, or whose sounds are missing, are run again, unless their files are unusable.
    """
    file = _file(output)

    def do(left: Sequence[EvaluationJob]) -> Iterator[Result]:
        yield from (job.result for job in left if job.result.error is not None)
        yield from each(_with_originals(job for job in left if job.result.error is None))

    return jobs.run(
        file,
        todo,
        do,
        key=lambda job: job.result.key,
        known=_known(file, todo),
        usable=lambda result: _is_finished(output, result),
    )


def finished_results(todo: Sequence[EvaluationJob], output: Path) -> dict[str, Result]:
    """Return the jobs' stored results by key, except failed ones and those with missing sounds."""
    known = _known(_file(output), todo)
    return {key: result for key, result in known.items() if _is_finished(output, result)}


def _file(output: Path) -> jobs.ResultsFile[Result]:
    key = attrgetter("key")
    return jobs.ResultsFile(output / LINES, key, encode=Result.to_json, decode=Result.from_json)


def _known(file: jobs.ResultsFile[Result], todo: Sequence[EvaluationJob]) -> dict[str, Result]:
    """Return the last result for the key of each job, unless another job has replaced its audio.

    Results whose version, clip, method or seed differs from the job's are left out.
    """
    owners = {result.audio: result.key for result in file.read()}
    last = file.last_results()
    wanted = {job.result.key: _identity(job.result) for job in todo}
    return {
        key: last[key]
        for key, identity in wanted.items()
        if key in last
        and _identity(last[key]) == identity
        and (last[key].error or owners[last[key].audio] == key)
    }


def _with_originals(left: Iterable[EvaluationJob]) -> list[EvaluationJob]:
    """Assign each original sound to at most one job: parallel jobs must not write the same file."""
    todo = list(left)
    # The method ``noisy`` writes the noisy sound as its output.
    taken = {audio_name("noisy", job.result.noisy) for job in todo if job.result.method == "noisy"}
    chosen = []
    for job in todo:
        files = {kind: audio_name(kind, getattr(job.result, kind)) for kind in ("clean", "noisy")}
        mine = tuple(kind for kind, name in files.items() if name not in taken)
        taken.update(files.values())
        chosen.append(job._replace(originals=mine))
    return chosen


def _identity(result: Result) -> tuple[Any, ...]:
    """Return the properties of a result that are known before it is computed."""
    names = ("version", "method", "noisy", "clean", "noise", "snr", "seed")
    return tuple(getattr(result, name) for name in names)


def _is_finished(output: Path, result: Result) -> bool:
    """Return whether a job succeeded and its audio files still exist."""
    if result.error is not None:
        return False
    names = (result.audio, audio_name("noisy", result.noisy), audio_name("clean", result.clean))
    return all(name is not None and (output / name).is_file() for name in names)


def _digest(path: str) -> tuple[str, str | None]:
    """Return a hash of a file and None, or an empty string and why the file cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest(), None
    except OSError as error:
        return "", f"{printable_name(path)} cannot be read: {reason(error)}"
