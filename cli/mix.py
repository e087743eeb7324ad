"""``alphamf mix``: make a corpus of noisy speech for ``alphamf evaluate``."""

import math
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

import typer

from alphamf.batch.inputs import STREAM, Problem
from alphamf.cli import report
from alphamf.cli.options import Clean, NoSandbox, Quiet, check_least, seed_option
from alphamf.errors import AlphaMFError
from alphamf.tools.files import printable_name

if TYPE_CHECKING:
    from alphamf.evaluation.mixing.corpus import Mixture

T = TypeVar("T")

RATES = (4000, 192000)  # lowest and highest, in Hz


def mix(
    clean: Clean,
    noise: Annotated[
        list[str],
        typer.Option(
            metavar="NOISE",
            help="Noise: a file, folder or pattern; can be repeated. The kind of a noise is the "
            "name of its innermost folder below the given one, otherwise the file's name.",
        ),
    ],
    output_dir: Annotated[
        Path,
        typer.Option(
            "--output-dir", "-o", metavar="DIR", help="Folder for the corpus.", show_default=False
        ),
    ],
    snr: Annotated[
        str, typer.Option(metavar="DB,DB,...", help="Signal-to-noise ratios in dB.")
    ] = "-5,0,5,10,15",
    level: Annotated[
        Literal["plain", "active"],
        typer.Option(
            help="How the power of the speech is measured: plain, over the whole file; active, "
            "during speech only (ITU-T P.56)."
        ),
    ] = "plain",
    count: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Draw N mixtures at random; by default each recording is mixed with every kind "
            "of noise at every ratio.",
        ),
    ] = None,
    rate: Annotated[
        int | None,
        typer.Option(
            metavar="HZ",
            help="Sampling rate of the corpus; by default each recording keeps its own.",
        ),
    ] = None,
    seed: Annotated[int, seed_option("corpus")] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Overwrite the corpus in DIR.")
    ] = False,
    no_sandbox: NoSandbox = False,
    quiet: Quiet = False,
) -> None:
    """Mix clean speech with noise to make a corpus for alphamf evaluate.

    Writes DIR/clean/NAME.flac, DIR/noisy/KIND_SNRdB/NAME.flac and DIR/pairs.csv,
    which lists the parts of each mixture. The channels of a recording are averaged.
    If a mixture would exceed full scale, it is attenuated, together with the clean file and all
    other mixtures of that file.
    """
    started = time.perf_counter()
    problems: list[Problem] = []
    with report.user_errors(), report.progress(quiet, "mixtures") as update:
        from alphamf.evaluation.mixing import corpus

        snrs = _ratios(snr, corpus.SNR_LIMIT)
        _check([*clean, *noise], count=count, rate=rate, seed=seed)
        speech = list(_good(corpus.find_speech(clean, output_dir), problems))
        found = _good(corpus.find_noises(noise, output_dir), problems)
        noises = list(_good(corpus.usable_noises(found), problems))
        todo = corpus.recipes(speech, noises, snrs, count=count, seed=seed)
        made: list[Mixture] = []
        if todo:
            inputs = [each.path for each in speech] + [each.path for each in noises]
            planned = [recipe.files for recipe in todo]
            corpus.claim(output_dir, inputs, planned, overwrite=overwrite)
            with corpus.write_table(output_dir, planned, made):
                note = None if quiet else lambda sentence: report.note(f"Note: {sentence}")
                mixtures = corpus.make(
                    todo, output_dir, level=level, rate=rate, note=note, replace=overwrite
                )
                for mixture in _good(mixtures, problems):
                    made.append(mixture)
                    if update is not None:
                        update("mixing", len(made), len(todo))
    if made and not quiet:
        typer.echo(
            f"{printable_name(output_dir)}: {len(made)} mixtures of "
            f"{len({mixture.clean for mixture in made})} recordings in "
            f"{time.perf_counter() - started:.1f} s, listed in "
            f"{printable_name(output_dir / corpus.TABLE)}"
        )
    if problems:
        raise typer.Exit(2)


def _ratios(text: str, most: float) -> list[float]:
    """Return the distinct numbers of ``--snr`` in order; refuse those beyond -`most` to `most`."""
    try:
        # As folders are named: six digits, and no negative zero.
        found = [float(f"{float(word):g}") + 0.0 for word in text.split(",")]
    except ValueError:
        found = [math.nan]
    if not all(abs(ratio) <= most for ratio in found):
        raise AlphaMFError(
            f"--snr must be numbers from {-most:g} to {most:g}, separated by commas, not {text!r}"
        )
    return list(dict.fromkeys(found))


def _check(names: list[str], *, count: int | None, rate: int | None, seed: int) -> None:
    check_least("--count", count, 1)
    check_least("--seed", seed, 0)
    if rate is not None and not RATES[0] <= rate <= RATES[1]:
        raise AlphaMFError(f"--rate must be from {RATES[0]} to {RATES[1]} Hz, not {rate}")
    if STREAM in names:
        raise AlphaMFError("standard input cannot be used as speech or noise; give file names")


def _good(items: Iterable[T | Problem], problems: list[Problem]) -> Iterator[T]:
    """Yield the items that are not problems; print the problems as they occur, and collect them."""
    for item in items:
        if isinstance(item, Problem):
            report.error(item.source, item.sentence)
            problems.append(item)
        else:
            yield item
