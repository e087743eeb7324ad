"""Separate files into files: which outputs there are, and how they are written."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from alphamf.audio.reader import read
from alphamf.audio.writer import write
from alphamf.batch.inputs import STREAM, Job, Problem, plan, would_overwrite
from alphamf.errors import AlphaMFError
from alphamf.separation.separate import separate
from alphamf.tools.files import exists_error, make_folder

KEPT = "kept"
"""What is appended to a recording's name in place of a source's, if there is one output."""


class Request(NamedTuple):
    """What to write for every recording."""

    sources: Mapping[str, str | int]  # As in `separate`, by name
    outputs: Mapping[str, Sequence[str]]  # Sources in each output, by what is appended to the name
    seed: int
    overwrite: bool


def parse_sources(given: Sequence[str]) -> dict[str, str | int]:
    """Return sources by name, of texts such as ``voice=speech-16k`` and ``rest=8``."""
    found: dict[str, str | int] = {}
    for text in given:
        name, _, what = text.partition("=")
        if not re.fullmatch(r"[\w-]+", name) or not what:
            raise AlphaMFError(
                f"`source` must be NAME=WHAT, such as voice=speech-16k or rest=8, not {text!r}"
            )
        if name in found:
            raise AlphaMFError(f"`source` gives {name} twice")
        found[name] = int(what) if what.isdecimal() else what
    return found


def choose_outputs(names: Sequence[str], keep: str | None) -> dict[str, list[str]]:
    """Return the sources in each output: one for each, or only one with those in `keep`."""
    if keep is None:
        return {name: [name] for name in names}
    for name in (chosen := keep.split(",")):
        if name not in names:
            raise AlphaMFError(f"`keep` {name!r} is not a source; there are {', '.join(names)}")
    return {KEPT: chosen}


def jobs_of(
    inputs: Sequence[str], output_dir: str | None, request: Request
) -> tuple[list[dict[str, Job]], list[Problem]]:
    """Return the jobs of each recording by output, and the recordings that cannot be used."""
    if STREAM in inputs:
        raise AlphaMFError("standard input cannot be separated; give file names")
    plans = [
        plan(
            inputs,
            output_dir=output_dir,
            template=f"{{stem}}.{name}{{ext}}",
            overwrite=request.overwrite,
        )
        for name in request.outputs
    ]
    problems = {each.source: each for found in plans for each in found.problems}
    # What only some plans have is a result of another recording.
    by_source = [{job.source: job for job in found.jobs} for found in plans]
    jobs = [
        dict(zip(request.outputs, (each[source] for each in by_source), strict=True))
        for source in by_source[0]
        if all(source in each for each in by_source)
    ]
    return jobs, list(problems.values())


def separate_file(jobs: Mapping[str, Job], request: Request) -> bool:
    """Separate a recording, and write its outputs; return False if an earlier run has done it."""
    made = [job for job in jobs.values() if would_overwrite(job.output) and not request.overwrite]
    if len(made) == len(jobs) and made[0].searched:
        return False
    if made:
        raise exists_error(made[0].output)
    audio, rate = read(next(iter(jobs.values())).source)
    sounds = separate(audio, rate, request.sources, seed=request.seed).sounds
    for name, job in jobs.items():
        make_folder(job.output, job.link_root)
        sound = np.sum([sounds[each] for each in request.outputs[name]], axis=0)
        write(job.output, sound, rate, within=job.link_root, replace=request.overwrite)
    return True
