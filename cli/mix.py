"""``alphamf mix``: a corpus of noisy speech, for ``alphamf evaluate``."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alphamf.audio.inputs import STREAM, Problem, plan
from alphamf.cli import report
from alphamf.cli.options import check_least
from alphamf.errors import AlphaMFError
from alphamf.tools.files import shown

if TYPE_CHECKING:
    from alphamf.evaluation.mixing.corpus import Noise, Speech
    from alphamf.evaluation.mixing.table import Mixture

RATES = (4000, 192000)
"""Lowest and highest sampling rate of ``--rate``, in Hz."""


class Level(StrEnum):
    """Names of `evaluation.mixing.mixture.LEVELS`, which is not imported here: it needs numpy."""

    plain = "plain"
    active = "active"


def mix(
    clean: Annotated[
        list[str],
        typer.Argument(
            metavar="CLEAN",
            help="Recordings of clean speech: files, folders, patterns in quotes.",
            show_default=False,
        ),
    ],
    noise: Annotated[
        list[str],
        typer.Option(
            metavar="NOISE",
            help="Noise: a file, folder or pattern; may be given again. A file's kind is the "
            "folder that it is in below the one that is named, or else its own name.",
            show_default=False,
        ),
    ],
    output_dir: Annotated[
        Path,
        typer.Option(
            "--output-dir", "-o", metavar="DIR", help="Where the corpus goes.", show_default=False
        ),
    ],
    snr: Annotated[
        str, typer.Option(metavar="DB,DB,...", help="Signal-to-noise ratios in dB.")
    ] = "-5,0,5,10,15",
    level: Annotated[
        Level,
        typer.Option(
            help="Power of the speech: over the whole file, or while somebody speaks (ITU-T P.56)."
        ),
    ] = Level.plain,
    count: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Draw N mixtures at random; by default each recording is mixed with each kind "
            "of noise at each ratio.",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[
        int | None,
        typer.Option(
            metavar="HZ",
            help="Sampling rate of the corpus; by default each recording keeps its own.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="The same seed, the same corpus.")] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the corpus in DIR.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")] = False,
) -> None:
    """Mix clean speech with noise, for a corpus that alphamf evaluate reads.

    Writes DIR/clean/NAME.flac, DIR/noisy/KIND_SNRdB/NAME.flac and DIR/pairs.csv,
    which says what each mixture is made of. Several channels are averaged.
    Where a mixture would exceed full scale, it is made softer, and with it the
    clean file and all other mixtures of that file.
    """
    started = time.perf_counter()
    problems: list[Problem] = []
    made: list[Mixture] = []

    def note(sentence: str) -> None:
        if not quiet:
            typer.echo(f"Note: {sentence}", err=True)

    with report.user_errors(), report.progress(quiet, "mixtures") as update:
        from alphamf.evaluation.mixing import corpus, table

        snrs = _ratios(snr, corpus.SNR_LIMIT)
        _check([*clean, *noise], count=count, rate=rate, seed=seed)
        speech = list(_speech(clean, output_dir, problems))
        noises: list[Noise] = []
        for item in corpus.usable(_noises(noise, output_dir, problems)):
            _sort(item, noises, problems)
        todo = corpus.recipes(speech, noises, snrs, count=count, seed=seed)
        if todo:
            inputs = [*(item.path for item in speech), *(item.path for item in noises)]
            table.claim(output_dir, inputs, overwrite=overwrite)
            with table.writing(output_dir, made):
                for found in corpus.make(todo, output_dir, level=level, rate=rate, note=note):
                    _sort(found, made, problems)
                    if update is not None:
                        update("mixing", len(made), len(todo))
    if made and not quiet:
        typer.echo(
            f"{shown(output_dir)}: {len(made)} mixtures of "
            f"{len({mixture.clean for mixture in made})} recordings in "
            f"{time.perf_counter() - started:.1f} s, listed in {shown(output_dir / table.TABLE)}"
        )
    if problems:
        raise typer.Exit(2)


def _ratios(text: str, most: float) -> list[float]:
    """Return the numbers of ``--snr``, each once, in order."""
    try:
        # As folders are named: six digits, and no negative zero.
        found = [float(f"{float(word):g}") + 0.0 for word in text.split(",")]
    except ValueError:
        found = [math.nan]
    if not all(abs(ratio) <= most for ratio in found):
        raise AlphaMFError(
            f"--snr must be numbers from {-most:g} to {most:g} with commas between, not {text!r}"
        )
    return list(dict.fromkeys(found))


def _check(names: list[str], *, count: int | None, rate: int | None, seed: int) -> None:
    check_least("--count", count, 1)
    check_least("--seed", seed, 0)
    if rate is not None and not RATES[0] <= rate <= RATES[1]:
        raise AlphaMFError(f"--rate must be from {RATES[0]} to {RATES[1]} Hz, not {rate}")
    if STREAM in names:
        raise AlphaMFError("- is no place for speech or noise: name files")


def _speech(names: list[str], folder: Path, problems: list[Problem]) -> Iterator[Speech]:
    """Yield the clean recordings, under different names."""
    from alphamf.evaluation.mixing.corpus import Speech

    taken: dict[str, str] = {}
    for path, relative in _found(names, folder, problems):
        name = relative.with_suffix("").as_posix()
        if name in taken:
            sentence = f"{shown(path)} has the same name in the corpus as {shown(taken[name])}"
            _sort(Problem(path, sentence), [], problems)
            continue
        taken[name] = path
        yield Speech(path, name)


def _noises(names: list[str], folder: Path, problems: list[Problem]) -> Iterator[Noise]:
    from alphamf.evaluation.mixing.corpus import Noise

    for path, relative in _found(names, folder, problems):
        yield Noise(path, relative.parent.name or relative.stem)


def _found(names: list[str], folder: Path, problems: list[Problem]) -> Iterator[tuple[str, Path]]:
    """Yield the audio files that names stand for, once each, and their places in a folder named."""
    taken = set()
    for name in names:
        # Of one name at a time: files of different folders may be called the same.
        files = plan([name], output_dir=str(folder), overwrite=True)
        for problem in files.problems:
            _sort(problem, [], problems)
        for job in files.jobs:
            if (real := os.path.realpath(job.source)) not in taken:
                taken.add(real)
                yield job.source, Path(os.path.relpath(job.output, folder))


def _sort(item: Any, good: list[Any], problems: list[Problem]) -> None:
    """Report a problem at once; keep what is none."""
    if not isinstance(item, Problem):
        good.append(item)
        return
    report.error(item.source, item.sentence)
    problems.append(item)
