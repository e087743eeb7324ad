"""``alphamf evaluate``: measure how well and how fast methods denoise a corpus."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alphamf.cli import report
from alphamf.cli.options import (
    RUN,
    Cluster,
    Each,
    NoSandbox,
    Quiet,
    check_least,
    choose_each,
    json_option,
    model_option,
    option,
    seed_option,
)
from alphamf.errors import AlphaMFError
from alphamf.tools.extras import require_package
from alphamf.tools.files import printable_name
from alphamf.tools.pool import cores
from alphamf.tools.stopping import allow_stop

if TYPE_CHECKING:
    from alphamf.evaluation.pairs import Pair
    from alphamf.evaluation.runner import EvaluationJob
    from alphamf.evaluation.summary import Result

CORPUS = "Corpus"
METHOD = "Methods"
SCORING = "Scores and tables"

_HIDDEN = ("SDR dB", "SIR dB", "SAR dB", "STOI", "CPU s per s")
"""Columns that are left out in a terminal."""


def evaluate(
    clean: Annotated[
        str | None,
        option(CORPUS, "Clean speech: a folder, or a pattern in quotes.", metavar="DIR|GLOB"),
    ] = None,
    noisy: Annotated[
        list[str] | None,
        option(
            CORPUS,
            "Noisy speech: a folder, or a pattern in quotes; can be repeated.",
            metavar="DIR|GLOB",
        ),
    ] = None,
    pairs: Annotated[
        str | None,
        option(
            CORPUS,
            "Table of the pairs, instead of matching names: columns clean and noisy, "
            "optionally noise and snr.",
            metavar="FILE.csv",
        ),
    ] = None,
    limit: Annotated[
        int | None,
        option(CORPUS, "Use only N clips, drawn at random; always the same ones.", metavar="N"),
    ] = None,
    method: Annotated[
        list[str] | None,
        option(
            METHOD,
            "Method, several separated by commas, or all; NAME@MODEL for a method with its "
            "own speech model; NAME=FOLDER for the output files of another system, with "
            "the names of the noisy files; can be repeated.",
            metavar="NAME",
            show_default="noisy,oracle-mask,logmmse,is-nmf,fast",
        ),
    ] = None,
    model: Annotated[str, model_option(METHOD)] = "auto",
    seed: Annotated[int, seed_option("scores on the same machine", METHOD)] = 0,
    asr: Annotated[
        str | None,
        option(
            SCORING,
            "Measure the word error rate with a speech recogniser: whisper (tiny.en), "
            "whisper:FOLDER for another model, pocketsphinx, or a command that prints the words of "
            "{file}.",
            metavar="RECOGNISER",
        ),
    ] = None,
    transcripts: Annotated[
        str | None,
        option(
            SCORING,
            "File of transcripts: lines with a clean file's stem and its words; by default the "
            "recogniser's own transcript of the clean speech.",
            metavar="FILE",
        ),
    ] = None,
    dnsmos: Annotated[
        str | None,
        option(SCORING, "Compute DNSMOS P.835 scores with this network.", metavar="FILE.onnx"),
    ] = None,
    only: Annotated[
        bool,
        option(
            SCORING, "Leave methods from earlier runs out of the tables and the report.", "--only"
        ),
    ] = False,
    output: Annotated[
        Path, option(RUN, "Folder for the results.", "--output", "-o", metavar="DIR")
    ] = Path("evaluation"),
    jobs: Annotated[
        int | None, option(RUN, "Number of processes.", metavar="N", show_default="one per core")
    ] = None,
    cluster: Cluster = None,
    as_json: Annotated[bool, json_option("clip and method")] = False,
    no_sandbox: NoSandbox = False,
    quiet: Quiet = False,
) -> None:
    """Score denoisers on a corpus of noisy and clean speech, or continue a stopped run.

    Give two folders, --clean and --noisy, or --pairs, the table that 'alphamf mix' writes. Files
    are matched by name: clean/sp01.wav with car_5dB/sp01.wav or sp01_car_sn5.wav.
    Without --only, tables and report show all methods with results for these clips in the folder.
    """
    crashes: list[str] = []
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
        clips = sample(_clips(clean, noisy or [], pairs, output), limit)
        each = partial(
            _each,
            pool=choose_each(cluster, quiet=quiet),
            workers=jobs or cores(),
            crashes=crashes,
        )
        with runner.lock_results(output):
            earlier = [] if only else outputs.earlier_entries(output, entries)
            # Planned once: an input that changes meanwhile would get keys that its results lack.
            everything = runner.plan(
                clips, [*earlier, *entries], str(output), seed=seed, extra=extra
            )
            asked = {entry.spec for entry in entries}
            todo = [job for job in everything if job.result.method in asked]
            runner.check_inputs(todo, output)
            results = _run(todo, output, each, as_json=as_json, quiet=quiet)
            finished = runner.finished_results(everything, output)
            shown = outputs.order_results(everything, results, finished)
            settings = outputs.describe_run(
                [*earlier, *entries], seed=seed, command=shlex.join(["alphamf", *sys.argv[1:]])
            )
            settings |= {"clean": clean, "noisy": noisy, "pairs": pairs}
            settings |= {"asr": asr, "transcripts": transcripts, "dnsmos": dnsmos}
            outputs.write(output, shown, settings)
        if not quiet:
            for note in outputs.notes(entries, results):
                typer.echo(f"Note: {note}", err=True)
        if not (quiet or as_json):
            _print(shown, output)
        _exit(results, crashed=bool(crashes))


def _clips(
    clean: str | None, noisy: Sequence[str], pairs: str | None, output: Path
) -> Sequence[Pair]:
    """Return the pairs of noisy and clean clips; without `pairs`, files in `output` are ignored."""
    from alphamf.evaluation.pairs import find_pairs, read_pairs

    if pairs is None:
        if clean is None or not noisy:
            raise AlphaMFError("give the corpus as --clean and --noisy, or as --pairs")
        return find_pairs(clean, noisy, output=str(output))
    if len(noisy) > 1:
        raise AlphaMFError(f"with --pairs, give one folder as --noisy, not {len(noisy)}")
    for given, folder in (("--clean", clean), *(("--noisy", name) for name in noisy)):
        if folder is not None and not os.path.isdir(folder):
            raise AlphaMFError(
                f"{given} must be a folder if --pairs is given; {printable_name(folder)} is not one"
            )
    return read_pairs(pairs, clean, next(iter(noisy), None))


def _run(
    todo: Sequence[EvaluationJob],
    output: Path,
    each: Callable[[Sequence[EvaluationJob]], Iterator[Result]],
    *,
    as_json: bool,
    quiet: bool,
) -> list[Result]:
    """Run the jobs, pass each result to `_report`, and return all results in the jobs' order."""
    from alphamf.evaluation import runner

    done: dict[str, Result] = {}
    reported: set[tuple[str, str]] = set()
    with report.continued_later(quiet=quiet), report.progress(quiet, "results") as update:
        for result in runner.run(todo, output, each):
            done[result.key] = result
            _report(result, reported, as_json=as_json)
            if update is not None:
                update("evaluation", len(done), len(todo))
    return [done[job.result.key] for job in todo]


def _each(
    jobs: Sequence[EvaluationJob], *, pool: Each, workers: int, crashes: list[str]
) -> Iterator[Result]:
    """Run jobs in parallel and yield the results; collect unexpected errors in `crashes`."""
    from alphamf.evaluation.measure import measure

    work = partial(measure, stoppable=allow_stop)
    for outcome in pool(work, jobs, workers=workers, update=None, in_order=False):
        if outcome.error is not None:
            if outcome.error not in crashes:
                report.say((outcome.details or "").rstrip("\n"), err=True)
            crashes.append(outcome.error)
        yield outcome.result or replace(outcome.item.result, error=outcome.error)


def _report(result: Result, reported: set[tuple[str, str]], *, as_json: bool) -> None:
    """Print a result as JSON if `as_json`; print an error of a clip once, not once per method."""
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


def _print(results: Sequence[Result], output: Path) -> None:
    from alphamf.evaluation.outputs import overview

    report.table(*overview(results), hidden=_HIDDEN)
    folder = printable_name(output)
    typer.echo(f"\n{folder}/report.html, summary.md, results.csv, results.jsonl, settings.json")
