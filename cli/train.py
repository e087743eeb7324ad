"""``alphamf train``: train a speech model on clean recordings."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from alphamf.batch.inputs import STREAM, find, would_overwrite
from alphamf.cli import report
from alphamf.cli.options import Clean, NoSandbox, Quiet, check_least, numbers, seed_option
from alphamf.errors import AlphaMFError
from alphamf.tools.files import check_writable, exists_error, printable_name, refuse_links

if TYPE_CHECKING:
    from alphamf.training.dictionary.selection import Selection


def train(
    clean: Clean,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="MODEL.npz", help="Output file for the model.")
    ],
    rate: Annotated[
        int, typer.Option(metavar="HZ", help="Sampling rate of the model, 4000 to 48000.")
    ] = 8000,
    rank: Annotated[
        str,
        typer.Option(
            metavar="K[,K...]",
            help="Number of spectra to learn; if several are given, the one that predicts "
            "held-out speech best is kept.",
        ),
    ] = "60",
    alpha: Annotated[
        str,
        typer.Option(
            metavar="A[,A...]",
            help="Tail index, 0.5 to 2; several can be given as for --rank, although about 1 "
            "denoises best, whatever the score.",
        ),
    ] = "1.0",
    held_out: Annotated[
        float | None,
        typer.Option(
            metavar="PART",
            help="Fraction of the voices held out for the score (0.1 if there are several "
            "candidates).",
            show_default=False,
        ),
    ] = None,
    voices: Annotated[
        str,
        typer.Option(
            metavar="file|folder|prefix",
            help="What identifies a voice: the file, the first folder in which the paths "
            "differ, or the part of the file's name before - or _.",
        ),
    ] = "file",
    seconds: Annotated[
        float, typer.Option(metavar="S", help="Maximum speech per voice, in seconds.")
    ] = 5.0,
    stream: Annotated[
        bool | None,
        typer.Option(
            "--stream/--no-stream",
            help="Read one voice after the other, in constant memory, or hold all speech in "
            "memory (at most 30 minutes).",
            show_default=False,
        ),
    ] = None,
    sampler: Annotated[str, typer.Option(metavar="NAME", help="Sampler, or em for EM.")] = "em",
    above: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Learn only the band above 7.5 kHz, from speech at 48 kHz, and add it to a "
            "copy of this 16 kHz model. Only --seconds and --seed also apply.",
            show_default=False,
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Number of steps of the chain (200; with a stream, 800 plus one per voice).",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, seed_option("model")] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Overwrite the model if it exists.")
    ] = False,
    no_sandbox: NoSandbox = False,
    quiet: Quiet = False,
) -> None:
    """Train a speech model on clean recordings.

    Unfinished work lies in MODEL.npz.checkpoint, and the same command continues it.
    """
    from alphamf.training.dictionary.selection import select
    from alphamf.training.dictionary.settings import TrainingSettings
    from alphamf.training.dictionary.unfinished import clear

    started = time.perf_counter()
    skipped: list[str] = []
    with report.user_errors():
        if STREAM in clean:
            raise AlphaMFError("standard input cannot be used as clean speech; give file names")
        check_least("--seed", seed, 0)
        check_output(output, overwrite=overwrite)
        if above is not None:
            clips = find(clean)
            _extend(above, clips, output, seconds, seed, overwrite=overwrite, quiet=quiet)
            return
        ranks = [int(number) for number in numbers("--rank", rank, int)]
        alphas = numbers("--alpha", alpha, float)
        settings = TrainingSettings(
            rate=rate,
            sampler=sampler,
            steps=steps,
            seconds=seconds,
            voices=voices,
            stream=stream,
            seed=seed,
        )
        folder = f"{output}.checkpoint"
        refuse_links(folder, os.path.dirname(output) or os.curdir)
        several = len(ranks) * len(alphas) > 1
        with report.training_progress(printable_name(output), quiet, several=several) as progress:
            selection = select(
                find(clean),
                settings,
                ranks=ranks,
                alphas=alphas,
                held_out=held_out,
                folder=folder,
                progress=progress,
                skipped=partial(_report_skipped, skipped),
            )
        selection.model.save(output, replace=overwrite)
        clear(folder)
    if not quiet:
        _print(selection, output, time.perf_counter() - started)
    if skipped or "unusable" in selection.model.about:
        raise typer.Exit(2)


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
    typer.echo(f"Error: {sentence}", err=True)


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
