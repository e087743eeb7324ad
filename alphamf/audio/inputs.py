"""From what the user names (files, folders, patterns, ``-``) to pairs of input and output."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from alphamf.audio.formats import SUFFIXES
from alphamf.errors import AlphaMFError
from alphamf.tools.files import reason, shown

STREAM = "-"
"""Standard input as a source, standard output as an output."""

_MARK = ".denoised"


class Job(NamedTuple):
    """One file to denoise.

    Attributes
    ----------
    source, output
        Files, or `STREAM`.
    derived
        Whether the output's name comes from the input's.
    searched
        Whether the file was found in a folder or by a pattern. Then an output that exists is work
        that an earlier run has done.
    """

    source: str
    output: str
    derived: bool
    searched: bool = False


class Problem(NamedTuple):
    """An input that cannot be done, and why, in one sentence."""

    source: str
    sentence: str


class Plan(NamedTuple):
    """What to do; the jobs stand whatever the problems are."""

    jobs: list[Job]
    problems: list[Problem]


class _Found(NamedTuple):
    path: str
    relative: str
    searched: bool = True


def plan(
    inputs: Iterable[str],
    *,
    output: str | None = None,
    output_dir: str | None = None,
    overwrite: bool = False,
) -> Plan:
    """Find the input files and name an output for each.

    Parameters
    ----------
    inputs
        Files; folders, searched to the bottom for audio files; patterns, where ``**`` crosses
        folders; ``-`` for standard input. In folders and patterns, names that start with a dot
        and results of an earlier run (``*.denoised.*``) are passed over. A file named twice is
        done once.
    output
        The output of the only input; ``-`` for standard output.
    output_dir
        A folder for the outputs, which keep their names and their place in a folder given as
        input. Without it, ``talk.wav`` becomes ``talk.denoised.wav`` beside it.
    overwrite
        Whether an output that exists is replaced; otherwise it is a problem, unless the input was
        found in a folder or by a pattern: such an output stays as it is.

    Raises
    ------
    AlphaMFError
        `output` and `output_dir` do not go together, with each other or with the inputs.
    """
    if output is not None and output_dir is not None:
        raise AlphaMFError("-o names one output and --output-dir a folder: give one of them")
    inputs = list(inputs)
    if output_dir is not None:
        if STREAM in inputs:
            raise AlphaMFError("- has no name to use in --output-dir: use -o FILE")
        if os.path.lexists(output_dir) and not os.path.isdir(output_dir):
            raise AlphaMFError(f"--output-dir {shown(output_dir)} is not a folder")
    found, problems = _find(inputs, output_dir)
    if output is not None:
        _check_single(output, len(found) + len(problems))
    jobs: list[Job] = []
    taken: dict[str, str] = {}
    for item in found:
        derived = output is None and item.path != STREAM
        job = Job(item.path, output or _output(item, output_dir), derived, item.searched)
        sentence = _conflict(job, taken, overwrite)
        if sentence is None:
            jobs.append(job)
            taken[_identity(job.output)] = job.source
        else:
            problems.append(Problem(job.source, sentence))
    return Plan(jobs, problems)


def find(inputs: Iterable[str]) -> list[str]:
    """Return the audio files that names stand for, as `plan` does, for work without outputs.

    Raises
    ------
    AlphaMFError
        A folder or a pattern holds no audio file.
    """
    found, problems = _find(inputs, None)
    if problems:
        raise AlphaMFError(problems[0].sentence)
    return [item.path for item in found]


def exists(output: str) -> bool:
    """Whether writing to `output` would replace a file; a device or a pipe is not replaced."""
    return output != STREAM and os.path.isfile(output)


def _find(inputs: Iterable[str], output_dir: str | None) -> tuple[list[_Found], list[Problem]]:
    found: list[_Found] = []
    problems: list[Problem] = []
    for name in inputs:
        try:
            found.extend(_expand(name, output_dir))
        except AlphaMFError as error:
            problems.append(Problem(name, str(error)))
    return list({_identity(item.path): item for item in reversed(found)}.values())[::-1], problems


def _check_single(output: str, count: int) -> None:
    if count > 1:
        raise AlphaMFError(
            f"-o {shown(output)} names one output and there are {count} inputs: use --output-dir"
        )
    if output == STREAM:
        return
    if os.path.isdir(output) or output.endswith(("/", os.sep)):
        raise AlphaMFError(f"-o {shown(output)} is a folder: name a file, or use --output-dir")


def _expand(name: str, output_dir: str | None) -> Iterator[_Found]:
    """Yield the files that one of the user's names stands for."""
    if name == STREAM:
        yield _Found(STREAM, STREAM, searched=False)
    elif os.path.isdir(name):
        yield from _nonempty(
            _walk(name, output_dir), f"{shown(name)} is a folder without audio files"
        )
    elif not os.path.lexists(name) and glob.has_magic(name):
        yield from _nonempty(_match(name, output_dir), f"{shown(name)} matches no audio file")
    else:
        yield _Found(name, os.path.basename(name), searched=False)


def _nonempty(files: Iterable[_Found], sentence: str) -> Iterator[_Found]:
    empty = True
    for item in files:
        empty = False
        yield item
    if empty:
        raise AlphaMFError(sentence)


def _walk(folder: str, output_dir: str | None) -> Iterator[_Found]:
    skip = output_dir and os.path.realpath(output_dir)
    for parent, folders, names in os.walk(folder, onerror=_refuse):
        # The folder for the outputs may lie in that of the inputs.
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and os.path.realpath(os.path.join(parent, name)) != skip
        )
        for name in sorted(names):
            if _is_audio(name):
                path = os.path.join(parent, name)
                yield _Found(path, os.path.relpath(path, folder))


def _refuse(error: OSError) -> None:
    raise AlphaMFError(f"{shown(error.filename)} cannot be listed: {reason(error)}")


def _match(pattern: str, output_dir: str | None) -> Iterator[_Found]:
    """Yield what a pattern matches, placed relative to the part of it before the first wildcard."""
    skip = output_dir and os.path.join(os.path.realpath(output_dir), "")
    parts = Path(pattern).parts
    fixed = next(k for k, part in enumerate(parts) if glob.has_magic(part))
    root = os.path.join(*parts[:fixed]) if fixed else os.curdir
    for path in sorted(glob.glob(pattern, recursive=True)):
        if skip and os.path.realpath(path).startswith(skip):
            continue
        if _is_audio(os.path.basename(path)) and not os.path.isdir(path):
            yield _Found(path, os.path.relpath(path, root))


def _is_audio(name: str) -> bool:
    stem, suffix = os.path.splitext(name)
    return suffix.lower() in SUFFIXES and not stem.endswith(_MARK) and not name.startswith(".")


def _output(item: _Found, output_dir: str | None) -> str:
    if output_dir is not None:
        return os.path.join(output_dir, item.relative)
    if item.path == STREAM:
        return STREAM
    stem, suffix = os.path.splitext(item.path)
    return f"{stem}{_MARK}{suffix}"


def _identity(path: str) -> str:
    return path if path == STREAM else os.path.realpath(path)


def _conflict(job: Job, taken: dict[str, str], overwrite: bool) -> str | None:
    output = shown(job.output)
    if job.output == STREAM:
        return None
    if _identity(job.output) == _identity(job.source):
        return f"{shown(job.source)} is also its own output: choose another -o or --output-dir"
    other = taken.get(_identity(job.output))
    if other is not None:
        return f"{shown(job.source)} has the same output as {shown(other)}: {output}"
    if exists(job.output) and not (overwrite or (job.searched and job.derived)):
        return f"{output} exists already: use --overwrite to replace it"
    return None
