"""``alphamf separate``: split recordings into sources, or keep or remove some of them."""

import re
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alphamf.batch.inputs import STREAM, Job, Plan, plan, would_overwrite
from alphamf.cli import report
from alphamf.cli.options import NoSandbox, Quiet, check_least, seed_option
from alphamf.errors import AlphaMFError
from alphamf.tools.files import exists_error, make_folder, printable_name

if TYPE_CHECKING:
    from alphamf.separation.separate import Separated

KEPT = "kept"
"""What is appended to a recording's name in place of a source, with ``--keep`` and ``--remove``."""


def separate(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT",
            help="Recordings: files, folders or quoted patterns.",
            show_default=False,
        ),
    ],
    source: Annotated[
        list[str],
        typer.Option(
            "--source",
            "-s",
            metavar="NAME=WHAT",
            help="A source; give two or more. WHAT is a model (speech-16k, or a file of 'alphamf "
            "train'), a sound file in which this source is alone, or the number of spectra to "
            "learn from the recording itself.",
            show_default=False,
        ),
    ],
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,...",
            help="Write one file with these sources; by default, a file for each source.",
            show_default=False,
        ),
    ] = None,
    remove: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME,...",
            help="Write one file with all sources but these.",
            show_default=False,
        ),
    ] = None,
    output_dir: Annotated[
        str | None,
        typer.Option(
            "--output-dir",
            "-o",
            metavar="DIR",
            help="Folder for the results; by default, that of each recording.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, seed_option("result on the same machine")] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Overwrite results that exist.")
    ] = False,
    no_sandbox: NoSandbox = False,
    quiet: Quiet = False,
) -> None:
    """Separate recordings into sources: voice and music, two instruments, an engine and the rest.

    Writes NAME.SOURCE.wav for each source, whose sum is the recording, or NAME.kept.wav with
    --keep or --remove. To remove noise from speech, use denoise: it has networks for that.
    """
    failed = False
    with report.user_errors():
        check_least("--seed", seed, 0)
        sources = _parse(source)
        outputs = _outputs(list(sources), keep, remove)
        if STREAM in inputs:
            raise AlphaMFError("standard input cannot be separated; give file names")
        plans = {
            name: plan(
                inputs,
                output_dir=output_dir,
                template=f"{{stem}}.{name}{{ext}}",
                overwrite=overwrite,
            )
            for name in outputs
        }
        failed = _report_problems(plans)
        for jobs in _jobs(plans):
            try:
                _separate(jobs, sources, outputs, seed, overwrite, quiet)
            except AlphaMFError as error:
                report.error(next(iter(jobs.values())).source, str(error))
                failed = True
    if failed:
        raise typer.Exit(2)


def _parse(given: list[str]) -> dict[str, Any]:
    """Return the sources of ``--source`` by name."""
    found: dict[str, Any] = {}
    for text in given:
        name, _, what = text.partition("=")
        if not re.fullmatch(r"[\w-]+", name) or not what:
            raise AlphaMFError(
                f"--source must be NAME=WHAT, such as voice=speech-16k or rest=8, not {text!r}"
            )
        if name in found:
            raise AlphaMFError(f"--source gives {name} twice")
        found[name] = int(what) if what.isdecimal() else what
    if len(found) < 2:
        raise AlphaMFError("give --source twice or more, such as -s voice=speech-16k -s rest=8")
    return found


def _outputs(names: list[str], keep: str | None, remove: str | None) -> dict[str, list[str]]:
    """Return the sources in each output, by what is appended to the recording's name."""
    if keep is None and remove is None:
        return {name: [name] for name in names}
    if keep is not None and remove is not None:
        raise AlphaMFError("--keep and --remove cannot be combined")
    chosen = (keep or remove or "").split(",")
    for name in chosen:
        if name not in names:
            option = "--keep" if keep is not None else "--remove"
            raise AlphaMFError(f"{option} {name!r} is not a source; there are {', '.join(names)}")
    return {KEPT: [name for name in names if (name in chosen) == (keep is not None)]}


def _report_problems(plans: dict[str, Plan]) -> bool:
    """Print the problem of each recording that has one; return whether there is any."""
    problems = {each.source: each for found in plans.values() for each in found.problems}
    for problem in problems.values():
        report.error(problem.source, problem.sentence)
    return bool(problems)


def _jobs(plans: dict[str, Plan]) -> list[dict[str, Job]]:
    """Return the jobs of each recording that every plan has; the others are results, or failed."""
    by_source = [{job.source: job for job in found.jobs} for found in plans.values()]
    return [
        dict(zip(plans, (each[source] for each in by_source), strict=True))
        for source in by_source[0]
        if all(source in each for each in by_source)
    ]


def _separate(
    jobs: dict[str, Job],
    sources: dict[str, Any],
    outputs: dict[str, list[str]],
    seed: int,
    overwrite: bool,
    quiet: bool,
) -> None:
    """Separate one recording, and write its outputs, which are complete or not there."""
    from alphamf.audio.reader import read
    from alphamf.audio.writer import write
    from alphamf.separation.separate import separate

    started = time.perf_counter()
    made = [job for job in jobs.values() if would_overwrite(job.output) and not overwrite]
    if len(made) == len(jobs) and made[0].searched:
        return  # by an earlier run
    if made:
        raise exists_error(made[0].output)
    source = next(iter(jobs.values())).source
    audio, rate = read(source)
    found: Separated = separate(audio, rate, sources, seed=seed)
    for name, job in jobs.items():
        make_folder(job.output, job.link_root)
        sound = sum(found.sounds[each] for each in outputs[name])
        write(job.output, sound, rate, within=job.link_root, replace=overwrite)
    if not quiet:
        names = ", ".join(printable_name(job.output) for job in jobs.values())
        report.say(f"{printable_name(source)}: {names} in {time.perf_counter() - started:.1f} s")
