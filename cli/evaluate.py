"""``alphamf evaluate``: measure how well and how fast methods denoise a corpus."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from alphamf.cli import evaluate_options as options
from alphamf.cli import report
from alphamf.cli.options import Cluster, Each, NoSandbox, Quiet, check_least, choose_each, pick
from alphamf.tools.extras import require_package
from alphamf.tools.files import printable_name
from alphamf.tools.pool import cores
from alphamf.tools.stopping import allow_stop

if TYPE_CHECKING:
    from alphamf.evaluation.runner import EvaluationJob
    from alphamf.evaluation.summary import Result

_HIDDEN = ("SDR dB", "SIR dB", "SAR dB", "STOI", "CPU s per s")
"""Columns that are left out in a terminal."""


def evaluate(
    clean: options.Clean = None,
    noisy: options.Noisy = None,
    pairs: options.Pairs = None,
    limit: options.Limit = None,
    method: options.Method = None,
    model: options.Model = "auto",
    seed: options.Seed = 0,
    asr: options.Asr = None,
    transcripts: options.Transcripts = None,
    dnsmos: options.Dnsmos = None,
    only: options.Only = False,
    table: options.Table = options.TableFormat.markdown,
    output: options.Output = Path("evaluation"),
    jobs: options.Jobs = None,
    cluster: Cluster = None,
    as_json: options.Json = False,
    no_sandbox: NoSandbox = False,
    quiet: Quiet = False,
) -> None:
    """Score denoisers on a corpus of noisy and clean speech, or continue a stopped run.

    Give two folders, --clean and --noisy, or --pairs, the table that 'alphamf mix' writes. Files
    are matched by name: clean/sp01.wav with car_5dB/sp01.wav or sp01_car_sn5.wav.
    Tables and report show all methods that the folder of results has for these clips.
    """
    values = locals()
    crashes: list[str] = []
    with report.user_errors(as_json=as_json):
        check_least("--limit", limit, 1)
        check_least("--jobs", jobs, 1)
        check_least("--seed", seed, 0)
        require_package("a report", "matplotlib", "report")
        require_package("a report", "jinja2", "report")
        notes, results, shown = _work(
            pick(options.CorpusOptions, values),
            pick(options.MethodOptions, values),
            pick(options.ScoringOptions, values),
            pick(options.EvaluationRunOptions, values),
            crashes,
        )
        if not quiet:
            for note in notes:
                typer.echo(f"Note: {note}", err=True)
        if not (quiet or as_json):
            _print(shown, output, latex=table is options.TableFormat.latex)
        _exit(results, crashed=bool(crashes))


def _work(
    corpus: options.CorpusOptions,
    methods: options.MethodOptions,
    scoring: options.ScoringOptions,
    run: options.EvaluationRunOptions,
    crashes: list[str],
) -> tuple[Iterator[str], Sequence[Result], Sequence[Result]]:
    """Do the work that is left; return notes, the results asked for, and those to show."""
    from alphamf.evaluation import outputs, runner

    output, seed = run.output, methods.seed
    entries, extra, clips = methods.entries(), scoring.extra(), corpus.clips(output)
    each = partial(
        _each,
        pool=choose_each(run.cluster, quiet=run.quiet),
        workers=run.jobs or cores(),
        crashes=crashes,
    )
    with runner.lock_results(output):
        earlier = [] if run.only else outputs.earlier_entries(output, entries)
        # Once: an input that changes meanwhile would have other keys than its results.
        everything = runner.plan(clips, [*earlier, *entries], str(output), seed=seed, extra=extra)
        asked = {entry.spec for entry in entries}
        todo = [job for job in everything if job.result.method in asked]
        runner.check_inputs(todo, output)
        results = _run(todo, output, each, as_json=run.as_json, quiet=run.quiet)
        shown = outputs.order_results(
            everything, results, runner.finished_results(everything, output)
        )
        settings = outputs.describe_run(
            [*earlier, *entries], seed=seed, command=shlex.join(["alphamf", *sys.argv[1:]])
        )
        given = vars(corpus) | vars(scoring)
        settings |= {name: value for name, value in given.items() if name != "limit"}
        outputs.write(output, shown, settings)
    return outputs.notes(entries, results), results, shown


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
    """Run jobs in parallel; collect unexpected errors (not AlphaMFError) in `crashes`."""
    from alphamf.evaluation.measure import measure

    work = partial(measure, stoppable=allow_stop)
    for outcome in pool(work, jobs, workers=workers, update=None, in_order=False):
        if outcome.error is not None:
            if outcome.error not in crashes:
                report.say((outcome.details or "").rstrip("\n"), err=True)
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
    from alphamf.evaluation.outputs import overview

    if latex:
        from alphamf.tools.tables import latex as written

        typer.echo(written(*overview(results)))
        return
    report.table(*overview(results), hidden=_HIDDEN)
    folder = printable_name(output)
    typer.echo(f"\n{folder}/report.html, summary.md, results.csv, results.jsonl, settings.json")
