"""``alphamf evaluate``: measure how well and how fast methods denoise a corpus."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alphamf.cli import report
from alphamf.cli.options import (
    RUN,
    Cluster,
    NoSandbox,
    Quiet,
    check_least,
    json_option,
    model_option,
    seed_option,
)
from alphamf.cli.parallel import Each, choose_each
from alphamf.errors import AlphaMFError
from alphamf.tools.extras import require_package
from alphamf.tools.files import printable_name
from alphamf.tools.pool import cores
from alphamf.tools.stopping import allow_stop

if TYPE_CHECKING:
    from alphamf.evaluation.pairs import Pair
    from alphamf.evaluation.results import Result
    from alphamf.evaluation.runner import EvaluationJob

CORPUS = "Corpus"
METHOD = "Methods"
SCORING = "Scores and tables"

_HIDDEN = ("SDR dB", "SIR dB", "SAR dB", "STOI", "CPU s per s")
"""Columns that are left out in a terminal."""


class TableFormat(StrEnum):
    """Output formats of a printed table."""

    markdown = "markdown"
    latex = "latex"


def evaluate(
    clean: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Clean speech: a folder, or a pattern in quotes.",
            show_default=False,
            rich_help_panel=CORPUS,
        ),
    ] = None,
    noisy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="DIR|GLOB",
            help="Noisy speech: a folder, or a pattern in quotes; can be repeated.",
            show_default=False,
            rich_help_panel=CORPUS,
        ),
    ] = None,
    pairs: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.csv",
            help="Table of the pairs, instead of matching names: columns clean and noisy, "
            "optionally noise and snr.",
            show_default=False,
            rich_help_panel=CORPUS,
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Use only N clips, spread over the corpus; always the same ones.",
            rich_help_panel=CORPUS,
        ),
    ] = None,
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Method, several separated by commas, or all; NAME@MODEL for a method with its "
            "own speech model; NAME=FOLDER for the output files of another system, with "
            "the names of the noisy files; can be repeated.",
            show_default="noisy,oracle-mask,logmmse,is-nmf,fast",
            rich_help_panel=METHOD,
        ),
    ] = None,
    model: Annotated[str, model_option(METHOD)] = "auto",
    seed: Annotated[int, seed_option("result", METHOD)] = 0,
    asr: Annotated[
        str | None,
        typer.Option(
            metavar="RECOGNISER",
            help="Measure the word error rate with a speech recogniser: whisper (tiny.en), "
            "whisper:FOLDER for another model, pocketsphinx, or a command that prints the words "
            "of {file}.",
            rich_help_panel=SCORING,
        ),
    ] = None,
    transcripts: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Transcripts: lines with a clean file's stem and its words; by default what "
            "the recogniser transcribes from the clean speech.",
            rich_help_panel=SCORING,
        ),
    ] = None,
    dnsmos: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.onnx",
            help="Compute DNSMOS P.835 scores with this network.",
            rich_help_panel=SCORING,
        ),
    ] = None,
    only: Annotated[
        bool,
        typer.Option(
            "--only",
            help="Leave methods from earlier runs out of the tables and the report.",
            rich_help_panel=SCORING,
        ),
    ] = False,
    table: Annotated[
        TableFormat,
        typer.Option(help="Format of the printed table.", rich_help_panel=SCORING),
    ] = TableFormat.markdown,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Folder for the results.", rich_help_panel=RUN
        ),
    ] = Path("evaluation"),
    jobs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Number of processes.",
            show_default="one per core",
            rich_help_panel=RUN,
        ),
    ] = None,
    cluster: Cluster = None,
    as_json: Annotated[bool, json_option("result")] = False,
    no_sandbox: NoSandbox = False,
    quiet: Quiet = False,
) -> None:
    """Score denoisers on a corpus of noisy and clean speech, or continue a stopped run.

    Files belong together by their names: clean/sp01.wav and car_5dB/sp01.wav or sp01_car_sn5.wav.
    Tables and report show all methods that the folder of results has for these clips.
    """
    with report.user_errors(as_json=as_json):
        check_least("--limit", limit, 1)
        check_least("--jobs", jobs, 1)
        check_least("--seed", seed, 0)
        require_package("a report", "matplotlib", "report")
        require_package("a report", "jinja2", "report")
        from alphamf.evaluation import outputs, runner
        from alphamf.evaluation.extra_scores import parse_extra
        from alphamf.evaluation.methods import DEFAULTS, resolve
        from alphamf.evaluation.pairs import sample

        entries = resolve(method or DEFAULTS, model)
        extra = parse_extra(asr, transcripts, dnsmos)
        clips = sample(_pairs(clean, noisy or [], pairs, output), limit)
        crashes: list[str] = []
        each = partial(
            _each,
            pool=choose_each(cluster, quiet=quiet),
            workers=jobs or cores(),
            crashes=crashes,
        )
        with runner.lock_results(output):
            earlier = [] if only else outputs.earlier_entries(output, entries)
            # Once: an input that changes meanwhile would have other keys than its results.
            everything = runner.plan(
                clips, [*earlier, *entries], str(output), seed=seed, extra=extra
            )
            asked = {entry.spec for entry in entries}
            todo = [job for job in everything if job.result.method in asked]
            runner.check_inputs(todo, output)
            results = _run(todo, output, each, as_json=as_json, quiet=quiet)
            shown_results = outputs.order_results(
                everything, results, runner.finished_results(everything, output)
            )
            settings = outputs.describe_run(
                [*earlier, *entries], seed=seed, command=shlex.join(["alphamf", *sys.argv[1:]])
            )
            settings |= {"clean": clean, "noisy": noisy, "pairs": pairs}
            settings |= {"asr": asr, "transcripts": transcripts, "dnsmos": dnsmos}
            outputs.write(output, shown_results, settings)
        if not quiet:
            for note in outputs.notes(entries, results):
                typer.echo(f"Note: {note}", err=True)
        if not (quiet or as_json):
            _print(shown_results, output, latex=table is TableFormat.latex)
        _exit(results, crashed=bool(crashes))


def _pairs(clean: str | None, noisy: list[str], table: str | None, output: Path) -> list[Pair]:
    from alphamf.evaluation.pairs import find_pairs, read_pairs

    if table is None:
        if clean is None or not noisy:
            raise AlphaMFError("give the corpus as --clean and --noisy, or as --pairs")
        return find_pairs(clean, noisy, output=str(output))
    if len(noisy) > 1:
        raise AlphaMFError(f"with --pairs, give one folder as --noisy, not {len(noisy)}")
    for option, folder in (("--clean", clean), *(("--noisy", name) for name in noisy)):
        if folder is not None and not os.path.isdir(folder):
            raise AlphaMFError(
                f"{option} must be a folder if --pairs is given; {printable_name(folder)} "
                "is not one"
            )
    return read_pairs(table, clean, next(iter(noisy), None))


def _run(
    todo: Sequence[EvaluationJob],
    output: Path,
    each: Callable[[Sequence[EvaluationJob]], Iterator[Result]],
    *,
    as_json: bool,
    quiet: bool,
) -> list[Result]:
    """Run the jobs, print each result, and return all results in the order of the jobs."""
    from alphamf.evaluation import runner

    done: dict[str, Result] = {}
    reported: set[tuple[str, str]] = set()
    with report.progress(quiet, "results") as update:
        for result in runner.run(todo, output, each):
            done[result.key] = result
            _report(result, reported, as_json=as_json)
            if update is not None:
                update("evaluation", len(done), len(todo))
    return [done[job.result.key] for job in todo]


def _each(
    jobs: Sequence[EvaluationJob], *, pool: Each, workers: int, crashes: list[str]
) -> Iterator[Result]:
    """Run jobs in parallel; collect unexpected errors (not AlphaMFError) in `crashes`."""
    from alphamf.evaluation.measure import measure

    work = partial(measure, stoppable=allow_stop)
    for outcome in pool(work, jobs, workers=workers, update=None, in_order=False):
        if outcome.error is not None:
            if outcome.error not in crashes:
                typer.echo(outcome.details or "", err=True, nl=False)
            crashes.append(outcome.error)
        yield outcome.result or replace(outcome.item.result, error=outcome.error)


def _report(result: Result, reported: set[tuple[str, str]], *, as_json: bool) -> None:
    """Print a result; print an error of a clip only once, not once per method."""
    if as_json:
        report.json_line(result.to_json())
    if result.error is None or (result.noisy, result.error) in reported:
        return
    reported.add((result.noisy, result.error))
    report.error(result.noisy, result.error)


def _exit(results: Sequence[Result], *, crashed: bool) -> None:
    failed = sum(result.error is not None for result in results)
    if failed:
        typer.echo(f"Error: {failed} of {len(results)} results failed", err=True)
        raise typer.Exit(1 if crashed else 2)


def _print(results: Sequence[Result], output: Path, *, latex: bool) -> None:
    from alphamf.evaluation.markdown import overview

    if latex:
        from alphamf.tools.tables import latex as written

        typer.echo(written(*overview(results)))
        return
    report.table(*overview(results), hidden=_HIDDEN)
    folder = printable_name(output)
    typer.echo(f"\n{folder}/report.html, summary.md, results.csv, results.jsonl, settings.json")
