"""From what the user names (files, folders, patterns, ``-``) to pairs of input and output."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from alphamf.audio.search import RESULT, Found, expand
from alphamf.errors import AlphaMFError
from alphamf.tools.files import shown

STREAM = "-"
"""Standard input as a source, standard output as an output."""

_ENDINGS = {"--plot": ".png", "--uncertainty": ".npz"}


class Job(NamedTuple):
    """One file to denoise.

    Attributes
    ----------
    source, output
        Files, or `STREAM`.
    derived
        Whether the output's name comes from the input's.
    searched
        Whether the file was found in a folder or by a pattern; an output that exists then means
        that an earlier run has done the work.
    """

    source: str
    output: str
    derived: bool
    searched: bool = False


class Problem(NamedTuple):
    """An input that cannot be used, and the reason in one sentence."""

    source: str
    sentence: str


class Plan(NamedTuple):
    """The files to denoise, and the inputs that cannot be used."""

    jobs: list[Job]
    problems: list[Problem]


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
        Files; folders, searched with all folders below for audio files; patterns, where ``**``
        crosses folders; ``-`` for standard input. In folders and patterns, names that start with a
        dot and results of an earlier run (``*.denoised.*``) are passed over. A file named twice is
        one job.
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
    """Return the audio files that names stand for, as `plan` finds them.

    Raises
    ------
    AlphaMFError
        A folder or a pattern holds no audio file.
    """
    found, problems = _find(inputs, None)
    if problems:
        raise AlphaMFError(problems[0].sentence)
    return [item.path for item in found]


def check_extra(outputs: Mapping[str, str | None], files: Plan, *, overwrite: bool) -> None:
    """Refuse further outputs of several files, and outputs that would replace something.

    Parameters
    ----------
    outputs
        Option to file, or to None where it was not given.
    files
        The files to denoise.
    overwrite
        Whether outputs may be replaced.

    Raises
    ------
    AlphaMFError
        One sentence that names the option.
    """
    taken = {os.path.realpath(path) for job in files.jobs for path in (job.source, job.output)}
    for option, path in outputs.items():
        if path is None:
            continue
        if len(files.jobs) + len(files.problems) > 1:
            raise AlphaMFError(f"{option} {shown(path)} is for one input, and there are several")
        if path == STREAM or os.path.isdir(path):
            raise AlphaMFError(f"{option} {shown(path)} must name a file")
        if not path.lower().endswith(_ENDINGS.get(option, "")):
            raise AlphaMFError(f"{option} {shown(path)} must end in {_ENDINGS[option]}")
        if _identity(path) in taken:
            raise AlphaMFError(f"{option} {shown(path)} is also the input or another output")
        if exists(path) and not overwrite:
            raise AlphaMFError(f"{shown(path)} exists already: use --overwrite to replace it")
        taken.add(os.path.realpath(path))


def exists(output: str) -> bool:
    """Whether writing to `output` would replace a file; a device or a pipe is not replaced."""
    return output != STREAM and os.path.isfile(output)


def _find(inputs: Iterable[str], output_dir: str | None) -> tuple[list[Found], list[Problem]]:
    """Find the input files, each once, and the inputs that stand for none."""
    found: list[Found] = []
    problems: list[Problem] = []
    for name in inputs:
        try:
            _identity(name)
            if name == STREAM:
                found.append(Found(STREAM, STREAM, searched=False))
            else:
                found.extend(expand(name, output_dir))
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


def _output(item: Found, output_dir: str | None) -> str:
    if output_dir is not None:
        return os.path.join(output_dir, item.relative)
    if item.path == STREAM:
        return STREAM
    stem, suffix = os.path.splitext(item.path)
    return f"{stem}{RESULT}{suffix}"


def _identity(path: str) -> str:
    if "\0" in path:
        raise AlphaMFError(f"{shown(path)} is no file: no name holds a NUL")
    return path if path == STREAM else os.path.realpath(path)


def _conflict(job: Job, taken: dict[str, str], overwrite: bool) -> str | None:
    """Return a sentence where a job would overwrite something; `taken` maps outputs to sources."""
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
