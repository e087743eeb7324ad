"""``alphamf evaluate``: how well and how fast methods denoise a corpus."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alphamf.cli import report
from alphamf.cli.options import Cluster, check_least
from alphamf.cli.parallel import Each, each_on
from alphamf.errors import AlphaMFError
from alphamf.tools import pool
from alphamf.tools.files import shown
from alphamf.tools.stopping import stoppable

if TYPE_CHECKING:
    from alphamf.evaluation.methods import Entry
    from alphamf.evaluation.pairs import Pair
    from alphamf.evaluation.runner import Job, Result

CORPUS = "Corpus"
METHOD = "Methods"
RUN = "Run"

_NOT_SHOWN = ("SDR dB", "SIR dB", "SAR dB", "STOI", "CPU s per s")
"""Columns that are left out in a terminal."""


def evaluate(
    clean: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Clean speech.",
            show_default=False,
            rich_help_panel=CORPUS,
        ),
    ] = None,
    noisy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIR|GLOB",
            help="Noisy speech: a folder, or a pattern in quotes; may be given several times.",
            show_default=False,
            rich_help_panel=CORPUS,
        ),
    ] = None,
    pairs: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.csv",
            help="Which files belong together, instead of by their names: columns clean, noisy, "
            "and perhaps noise, snr.",
            show_default=False,
            rich_help_panel=CORPUS,
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Only N clips, from all over the corpus, the same every time.",
            rich_help_panel=CORPUS,
        ),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Method, or several with commas between, or all; NAME@MODEL for one with its own "
            "speech model; may be given several times.",
            show_default="noisy,oracle-mask,logmmse,is-nmf,fast,balanced",
            rich_help_panel=METHOD,
        ),
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE",
            help="Speech model: a shipped one ('alphamf models'), or a file from 'alphamf train'.",
            rich_help_panel=METHOD,
        ),
    ] = "auto",
    seed: Annotated[
        int,
        typer.Option(metavar="N", help="The same seed, the same result.", rich_help_panel=METHOD),
    ] = 0,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Folder of results.", rich_help_panel=RUN
        ),
    ] = Path("evaluation"),
    jobs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Processes.",
            show_default="one per core",
            rich_help_panel=RUN,
        ),
    ] = None,
    cluster: Cluster = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a result.", rich_help_panel=RUN)
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print errors only.", rich_help_panel=RUN)
    ] = False,
) -> None:
    """Score denoisers on a corpus of noisy and clean speech; a run that was stopped goes on.

    Files belong together by their names: clean/sp01.wav and car_5dB/sp01.wav or sp01_car_sn5.wav.
    """
    with report.user_errors(as_json=as_json):
        check_least("--limit", limit, 1)
        check_least("--jobs", jobs, 1)
        check_least("--seed", seed, 0)
        from alphamf.evaluation import outputs, runner
        from alphamf.evaluation.methods import DEFAULTS, resolve
        from alphamf.evaluation.pairs import sample

        entries = resolve(method or DEFAULTS, model)
        clips = sample(_pairs(clean, noisy or [], pairs, output), limit)
        crashes: list[str] = []
        each = partial(
            _each,
            side_by_side=each_on(cluster, quiet=quiet),
            workers=jobs or pool.cores(),
            crashes=crashes,
        )
        with runner.locked(output):
            todo = runner.plan(clips, entries, str(output), seed=seed)
            done: dict[str, Result] = {}
            told: set[tuple[str, str]] = set()
            with report.progress(quiet, "results") as update:
                for result in runner.run(todo, output, each):
                    done[result.key] = result
                    _tell(result, told, as_json=as_json)
                    if update is not None:
                        update("evaluation", len(done), len(todo))
            results = [done[job.result.key] for job in todo]
            settings = outputs.describe_run(
                entries, seed=seed, command=shlex.join(["alphamf", *sys.argv[1:]])
            )
            settings |= {"clean": clean, "noisy": noisy, "pairs": pairs}
            outputs.write(output, results, settings)
        if not quiet:
            _tell_of_misfits(entries, results)
        if not (quiet or as_json):
            _show(results, output)
        failed = sum(result.error is not None for result in results)
        if failed:
            typer.echo(f"Error: {failed} of {len(results)} results could not be had", err=True)
            raise typer.Exit(1 if crashes else 2)


def _pairs(clean: str | None, noisy: list[str], table: str | None, output: Path) -> list[Pair]:
    from alphamf.evaluation.pairs import find_pairs, read_pairs

    if table is None:
        if clean is None or not noisy:
            raise AlphaMFError("name the corpus by --clean and --noisy, or by --pairs")
        return find_pairs(clean, noisy, output=str(output))
    if len(noisy) > 1:
        raise AlphaMFError(f"--noisy names one folder beside --pairs, not {len(noisy)}")
    for option, folder in (("--clean", clean), *(("--noisy", name) for name in noisy)):
        if folder is not None and not os.path.isdir(folder):
            raise AlphaMFError(f"{option} {shown(folder)} is not a folder, as --pairs needs it")
    return read_pairs(table, clean, next(iter(noisy), None))


def _each(
    jobs: Sequence[Job],
    *,
    side_by_side: Each,
    workers: int,
    crashes: list[str],
) -> Iterator[Result]:
    """Do jobs side by side, and note what went wrong that nobody foresaw."""
    from alphamf.evaluation.measure import measure

    work = partial(measure, stoppable=stoppable)
    for outcome in side_by_side(work, jobs, workers=workers, update=None, in_order=False):
        if outcome.error is not None:
            if outcome.error not in crashes:
                typer.echo(outcome.details or "", err=True, nl=False)
            crashes.append(outcome.error)
        yield outcome.result or replace(outcome.item.result, error=outcome.error)


def _tell(result: Result, told: set[tuple[str, str]], *, as_json: bool) -> None:
    """Report a result, but what is wrong with a clip only once for all methods."""
    if as_json:
        report.json_line(result.to_json())
    if result.error is None or (result.noisy, result.error) in told:
        return
    told.add((result.noisy, result.error))
    report.error(result.noisy, result.error)


def _tell_of_misfits(entries: Sequence[Entry], results: Sequence[Result]) -> None:
    """Say which dictionaries are for wider sound than that of some clips."""
    from alphamf.learnt.dictionary import load

    for entry in entries:
        if entry.method.uses_model and entry.model != "auto":
            rate = load(entry.model).rate
            rates = [result.rate for result in results if result.method == entry.spec]
            narrow = sum(found is not None and found < rate for found in rates)
            if narrow:
                typer.echo(
                    f"Note: {entry.spec}: its dictionary is for sound of {rate} Hz and more, and "
                    f"denoises sound below badly ({narrow} of {len(rates)} clips)",
                    err=True,
                )


def _show(results: Sequence[Result], output: Path) -> None:
    from alphamf.evaluation.markdown import overview
    from alphamf.tools.tables import markdown

    headings, rows = overview(results)
    if sys.stdout.isatty():
        from rich.box import SIMPLE
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        # A terminal is not wide enough for all of them, nor for the errors.
        chosen = [k for k, heading in enumerate(headings) if heading not in _NOT_SHOWN]
        grid = Table(box=SIMPLE, padding=0)
        for k in chosen:
            grid.add_column(headings[k], justify="right" if k else "left", no_wrap=not k)
        for row in rows:
            grid.add_row(*(Text(row[k].partition(" ±")[0]) for k in chosen))
        Console().print(grid)
    else:
        typer.echo(markdown(headings, rows))
    folder = shown(output)
    typer.echo(f"\n{folder}/report.html, summary.md, results.csv, results.jsonl, settings.json")
