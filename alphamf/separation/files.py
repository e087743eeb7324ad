"""Separate files into files: which outputs there are, and how they are written."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from alphamf.audio.reader import read
from alphamf.audio.writer import write
from alphamf.batch.inputs import STREAM, Job, Problem, plan, would_overwrite
from alphamf.errors import AlphaMFError
from alphamf.separation.separate import separate
from alphamf.tools.files import exists_error, make_folder, printable_name

KEPT = "kept"
"""What is appended to a recording's name in place of a source's, if there is one output."""


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
        found[name] = int(what) if re.fullmatch("[0-9]{1,9}", what) else what
    return found


def choose_outputs(names: Sequence[str], keep: str | None) -> dict[str, list[str]]:
    """Return the sources in each output: one for each, or only one with those in `keep`."""
    if keep is None:
        return {name: [name] for name in names}
    for name in (chosen := keep.split(",")):
        if name not in names:
            raise AlphaMFError(f"`keep` {name!r} is not a source; there are {', '.join(names)}")
    return {KEPT: chosen}


def separate_files(
    inputs: Sequence[str],
    sources: Mapping[str, str | int],
    keep: str | None,
    output_dir: str | None,
    *,
    seed: int,
    overwrite: bool,
) -> Iterator[Problem | str]:
    """Separate recordings; yield a problem or a line about each, but for those that were done."""
    outputs = choose_outputs(list(sources), keep)
    jobs, problems = _jobs(inputs, list(outputs), output_dir, overwrite=overwrite)
    yield from problems
    for each in jobs:
        source, started = next(iter(each.values())).source, time.perf_counter()
        try:
            if _is_done(list(each.values()), overwrite=overwrite):
                continue
            audio, rate = read(source)
            sounds = separate(audio, rate, sources, seed=seed).sounds
            for name, job in each.items():
                make_folder(job.output, job.link_root)
                sound = np.sum([sounds[part] for part in outputs[name]], axis=0)
                write(job.output, sound, rate, within=job.link_root, replace=overwrite)
        except AlphaMFError as error:
            yield Problem(source, str(error))
            continue
        made = ", ".join(printable_name(job.output) for job in each.values())
        yield f"{printable_name(source)}: {made} in {time.perf_counter() - started:.1f} s"


def _jobs(
    inputs: Sequence[str], outputs: Sequence[str], output_dir: str | None, *, overwrite: bool
) -> tuple[list[dict[str, Job]], list[Problem]]:
    """Return the jobs of each recording by output, and the recordings that cannot be used."""
    if STREAM in inputs:
        raise AlphaMFError("standard input cannot be separated; give file names")
    plans = [
        plan(
            inputs,
            output_dir=output_dir,
            template=f"{{stem}}.{name}{{ext}}",
            overwrite=overwrite,
        )
        for name in outputs
    ]
    problems = {each.source: each for found in plans for each in found.problems}
    # What only some plans have is a result of another recording.
    by_source = [{job.source: job for job in found.jobs} for found in plans]
    jobs = [
        dict(zip(outputs, (each[source] for each in by_source), strict=True))
        for source in by_source[0]
        if all(source in each for each in by_source)
    ]
    return jobs, list(problems.values())


def _is_done(jobs: Sequence[Job], *, overwrite: bool) -> bool:
    """Return whether an earlier run has separated a recording; an output of others is an error."""
    made = [job for job in jobs if would_overwrite(job.output) and not overwrite]
    if made and not (len(made) == len(jobs) and made[0].searched):
        raise exists_error(made[0].output)
    return bool(made)
