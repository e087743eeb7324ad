"""``alphamf evaluate``: measure how well and how fast methods denoise a corpus."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alphamf.cli.options import RUN, Cluster, Quiet, json_option, model_option, seed_option
from alphamf.errors import AlphaMFError
from alphamf.tools.files import printable_name

if TYPE_CHECKING:
    from alphamf.evaluation.extra_scores import ExtraScores
    from alphamf.evaluation.methods import Entry
    from alphamf.evaluation.pairs import Pair
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from alphamf.cli import report
from alphamf.cli.options import Each, NoSandbox, check_least, choose_each, pick
from alphamf.tools.extras import require_package
from alphamf.tools.pool import cores
from alphamf.tools.stopping import allow_stop

if TYPE_CHECKING:
    from alphamf.evaluation.runner import EvaluationJob
    from alphamf.evaluation.summary import Result


CORPUS = "Corpus"
METHOD = "Methods"
SCORING = "Scores and tables"


class TableFormat(StrEnum):
    """Output formats of a printed table."""

    markdown = "markdown"
    latex = "latex"


Clean = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="Clean speech: a folder, or a pattern in quotes.",
        show_default=False,
        rich_help_panel=CORPUS,
    ),
]

Noisy = Annotated[
    list[str] | None,
    typer.Option(
        metavar="DIR|GLOB",
        help="Noisy speech: a folder, or a pattern in quotes; can be repeated.",
        show_default=False,
        rich_help_panel=CORPUS,
    ),
]

Pairs = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.csv",
        help="Table of the pairs, instead of matching names: columns clean and noisy, "
        "optionally noise and snr.",
        show_default=False,
        rich_help_panel=CORPUS,
    ),
]

Limit = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Use only N clips, spread over the corpus; always the same ones.",
        rich_help_panel=CORPUS,
    ),
]

Method = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Method, several separated by commas, or all; NAME@MODEL for a method with its "
        "own speech model; NAME=FOLDER for the output files of another system, with "
        "the names of the noisy files; can be repeated.",
        show_default="noisy,oracle-mask,logmmse,is-nmf,fast",
        rich_help_panel=METHOD,
    ),
]

Model = Annotated[str, model_option(METHOD)]

Seed = Annotated[int, seed_option("result", METHOD)]

Asr = Annotated[
    str | None,
    typer.Option(
        metavar="RECOGNISER",
        help="Measure the word error rate with a speech recogniser: whisper (tiny.en), "
        "whisper:FOLDER for another model, pocketsphinx, or a command that prints the words of "
        "{file}.",
        rich_help_panel=SCORING,
    ),
]

Transcripts = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Transcripts: lines with a clean file's stem and its words; by default the "
        "recogniser's own transcript of the clean speech.",
        rich_help_panel=SCORING,
    ),
]

Dnsmos = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.onnx",
        help="Compute DNSMOS P.835 scores with this network.",
        rich_help_panel=SCORING,
    ),
]

Only = Annotated[
    bool,
    typer.Option(
        "--only",
        help="Leave methods from earlier runs out of the tables and the report.",
        rich_help_panel=SCORING,
    ),
]

Table = Annotated[
    TableFormat,
    typer.Option(help="Format of the printed table.", rich_help_panel=SCORING),
]

Output = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="DIR", help="Folder for the results.", rich_help_panel=RUN
    ),
]

Jobs = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Number of processes.",
        show_default="one per core",
        rich_help_panel=RUN,
    ),
]

Json = Annotated[bool, json_option("result")]


@dataclass(frozen=True)
class CorpusOptions:
    """The clips to evaluate on."""

    clean: Clean
    noisy: Noisy
    pairs: Pairs
    limit: Limit

    def clips(self, output: Path) -> Sequence[Pair]:
        """Return the pairs of noisy and clean clips; files in `output` are ignored."""
        from alphamf.evaluation.pairs import find_pairs, read_pairs, sample

        noisy = self.noisy or []
        if self.pairs is not None:
            self._check_folders(noisy)
            return sample(read_pairs(self.pairs, self.clean, next(iter(noisy), None)), self.limit)
        if self.clean is None or not noisy:
            raise AlphaMFError("give the corpus as --clean and --noisy, or as --pairs")
        return sample(find_pairs(self.clean, noisy, output=str(output)), self.limit)

    def _check_folders(self, noisy: Sequence[str]) -> None:
        """Refuse what a table of pairs does not go with."""
        if len(noisy) > 1:
            raise AlphaMFError(f"with --pairs, give one folder as --noisy, not {len(noisy)}")
        for option, folder in (("--clean", self.clean), *(("--noisy", name) for name in noisy)):
            if folder is not None and not os.path.isdir(folder):
                raise AlphaMFError(
                    f"{option} must be a folder if --pairs is given; {printable_name(folder)} "
                    "is not one"
                )


@dataclass(frozen=True)
class MethodOptions:
    """The methods to evaluate."""

    method: Method
    model: Model
    seed: Seed

    def entries(self) -> list[Entry]:
        """Return the methods."""
        from alphamf.evaluation.methods import DEFAULTS, resolve

        return resolve(self.method or DEFAULTS, self.model)


@dataclass(frozen=True)
class ScoringOptions:
    """Scores that are computed only on request."""

    asr: Asr
    transcripts: Transcripts
    dnsmos: Dnsmos

    def extra(self) -> ExtraScores:
        """Return the settings of the additional scores."""
        from alphamf.evaluation.extra_scores import parse_extra

        return parse_extra(self.asr, self.transcripts, self.dnsmos)


@dataclass(frozen=True)
class EvaluationRunOptions:
    """Where the work is done, and what is printed."""

    output: Output
    only: Only
    jobs: Jobs
    cluster: Cluster
    as_json: Json
    quiet: Quiet


_HIDDEN = ("SDR dB", "SIR dB", "SAR dB", "STOI", "CPU s per s")
"""Columns that are left out in a terminal."""


def evaluate(
    clean: Clean = None,
    noisy: Noisy = None,
    pairs: Pairs = None,
    limit: Limit = None,
    method: Method = None,
    model: Model = "auto",
    seed: Seed = 0,
    asr: Asr = None,
    transcripts: Transcripts = None,
    dnsmos: Dnsmos = None,
    only: Only = False,
    table: Table = TableFormat.markdown,
    output: Output = Path("evaluation"),
    jobs: Jobs = None,
    cluster: Cluster = None,
    as_json: Json = False,
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
            pick(CorpusOptions, values),
            pick(MethodOptions, values),
            pick(ScoringOptions, values),
            pick(EvaluationRunOptions, values),
            crashes,
        )
        if not quiet:
            for note in notes:
                typer.echo(f"Note: {note}", err=True)
        if not (quiet or as_json):
            _print(shown, output, latex=table is TableFormat.latex)
        _exit(results, crashed=bool(crashes))


def _work(
    corpus: CorpusOptions,
    methods: MethodOptions,
    scoring: ScoringOptions,
    run: EvaluationRunOptions,
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
