"""``alphamf train``: train a speech model on clean recordings."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING

import typer

from alphamf.batch.inputs import STREAM, find, would_overwrite
from alphamf.cli import report
from alphamf.cli import train_options as options
from alphamf.cli.options import Clean, NoSandbox, Quiet, check_least, pick
from alphamf.errors import AlphaMFError
from alphamf.tools.files import check_writable, exists_error, printable_name, refuse_links

if TYPE_CHECKING:
    from alphamf.training.dictionary.selection import Selection


def train(
    clean: Clean,
    output: options.Output,
    rate: options.Rate = 8000,
    rank: options.Rank = "60",
    alpha: options.Alpha = "1.0",
    held_out: options.HeldOut = None,
    voices: options.Voices = "file",
    seconds: options.Seconds = 5.0,
    stream: options.Stream = None,
    sampler: options.Sampler = "em",
    above: options.Above = None,
    steps: options.Steps = None,
    seed: options.Seed = 0,
    overwrite: options.Overwrite = False,
    no_sandbox: NoSandbox = False,
    quiet: Quiet = False,
) -> None:
    """Train a speech model on clean recordings.

    Unfinished work is stored in MODEL.npz.checkpoint; the same command continues it.
    """
    values = locals()
    from alphamf.training.dictionary.unfinished import clear

    started = time.perf_counter()
    skipped: list[str] = []
    with report.user_errors():
        if STREAM in clean:
            raise AlphaMFError("standard input cannot be used as clean speech; give file names")
        check_least("--seed", seed, 0)
        check_output(output, overwrite=overwrite)
        if above is not None:
            _extend(above, find(clean), output, seconds, seed, overwrite=overwrite, quiet=quiet)
            return
        candidates = pick(options.CandidateOptions, values)
        training = pick(options.TrainingOptions, values)
        selection = _select(clean, output, candidates, training, skipped, quiet=quiet)
        selection.model.save(output, replace=overwrite)
        clear(_checkpoint(output))
    if not quiet:
        _print(selection, output, time.perf_counter() - started)
    if skipped or "unusable" in selection.model.about:
        raise typer.Exit(2)


def _select(
    clean: list[str],
    output: str,
    candidates: options.CandidateOptions,
    training: options.TrainingOptions,
    skipped: list[str],
    *,
    quiet: bool,
) -> Selection:
    """Train the candidates and return the best; files that cannot be used go to `skipped`."""
    from alphamf.training.dictionary.selection import select

    ranks, alphas, settings = candidates.ranks, candidates.alphas, training.settings()
    folder = _checkpoint(output)
    refuse_links(folder, os.path.dirname(output) or os.curdir)
    several = len(ranks) * len(alphas) > 1
    with (
        report.continued_later(quiet=quiet),
        report.training_progress(printable_name(output), quiet, several=several) as progress,
    ):
        return select(
            find(clean),
            settings,
            ranks=ranks,
            alphas=alphas,
            held_out=candidates.held_out,
            folder=folder,
            progress=progress,
            skipped=partial(_report_skipped, skipped),
        )


def _checkpoint(output: str) -> str:
    return f"{output}.checkpoint"


def _extend(
    name: str,
    clean: list[str],
    output: str,
    seconds: float,
    seed: int,
    *,
    overwrite: bool,
    quiet: bool,
) -> None:
    """Write a copy of a model with added rows above its frequency band."""
    from alphamf.learnt.dictionary import load
    from alphamf.training.dictionary.band_extension import extend

    started = time.perf_counter()
    with report.progress(quiet, "files") as update:
        progress = update and partial(update, printable_name(output))
        extended = extend(load(name), clean, seconds=seconds, seed=seed, progress=progress)
    extended.save(output, replace=overwrite)
    if not quiet:
        elapsed = time.perf_counter() - started
        typer.echo(
            f"{printable_name(output)}: {printable_name(name)} with rows above its band, "
            f"from {len(clean)} "
            f"files in {elapsed:.1f} s"
        )


def _report_skipped(skipped: list[str], sentence: str) -> None:
    skipped.append(sentence)
    report.say(f"Error: {report.with_options(sentence)}", err=True)


def _print(selection: Selection, output: str, seconds: float) -> None:
    from alphamf.learnt.description import summary

    if selection.candidates:
        typer.echo(_table(selection))
    about = selection.model.about
    by_voice = f" in {about['voices']} voices" if "voices" in about else ""
    typer.echo(
        f"{printable_name(output)}: {summary(selection.model)}, from {about['files']} "
        f"files{by_voice} "
        f"({about['seconds']:.0f} s of speech) in {seconds:.1f} s"
    )


def _table(selection: Selection) -> str:
    """Format the scores of all candidates and mark the best; differences are paired by voice."""
    from alphamf.tools.tables import mean_and_error

    best = selection.best
    lines = ["  rank  alpha   log density of a hidden cell   difference to the best"]
    for candidate in selection.candidates:
        mean, error = mean_and_error(candidate.scores)
        line = f"{candidate.rank:6}  {candidate.alpha:5g}   {mean:12.4f} ± {error:.4f}"
        if candidate is best:
            line = f"*{line[1:]}"
        else:
            less, error = mean_and_error(best.scores - candidate.scores)
            line = f"{line:48}{less:.4f} ± {error:.4f}"
        lines.append(line)
    return "\n".join(lines)


def check_output(output: str, *, overwrite: bool) -> None:
    """Raise an AlphaMFError before the work starts if the output file cannot be written."""
    if not output.lower().endswith(".npz"):
        raise AlphaMFError(f"the output of -o must end in .npz, not {printable_name(output)}")
    check_writable(output)
    if would_overwrite(output) and not overwrite:
        raise exists_error(output)
