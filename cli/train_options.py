"""Options of ``alphamf train``, and the groups that its work is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from alphamf.cli.options import numbers, seed_option

if TYPE_CHECKING:
    from alphamf.training.dictionary.settings import TrainingSettings

Output = Annotated[
    str, typer.Option("--output", "-o", metavar="MODEL.npz", help="Output file for the model.")
]

Rate = Annotated[int, typer.Option(metavar="HZ", help="Sampling rate of the model, 4000 to 48000.")]

Rank = Annotated[
    str,
    typer.Option(
        metavar="K[,K...]",
        help="Number of spectra to learn; if several are given, the one that predicts "
        "held-out speech best is kept.",
    ),
]

Alpha = Annotated[
    str,
    typer.Option(
        metavar="A[,A...]",
        help="Tail index, 0.5 to 2; several can be given, as for --rank, but values near 1 "
        "denoise best, whatever the score.",
    ),
]

HeldOut = Annotated[
    float | None,
    typer.Option(
        metavar="PART",
        help="Fraction of the voices held out for the score (0.1 if there are several candidates).",
        show_default=False,
    ),
]

Voices = Annotated[
    str,
    typer.Option(
        metavar="file|folder|prefix",
        help="What identifies a voice: the file, the first folder in which the paths "
        "differ, or the part of the file's name before - or _.",
    ),
]

Seconds = Annotated[float, typer.Option(metavar="S", help="Maximum speech per voice, in seconds.")]

Stream = Annotated[
    bool | None,
    typer.Option(
        "--stream/--no-stream",
        help="Read one voice after the other, in constant memory, or hold all speech in "
        "memory (at most 30 minutes).",
        show_default=False,
    ),
]

Sampler = Annotated[str, typer.Option(metavar="NAME", help="Sampler to train with; em: EM.")]

Above = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="Learn only the band above 7.5 kHz, from speech at 48 kHz, and add it to a "
        "copy of this 16 kHz model. Only --seconds and --seed also apply.",
        show_default=False,
    ),
]

Steps = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Number of steps of the chain (200; with a stream, 800 plus one per voice).",
        show_default=False,
    ),
]

Seed = Annotated[int, seed_option("model")]

Overwrite = Annotated[bool, typer.Option("--overwrite", help="Overwrite the model if it exists.")]


@dataclass(frozen=True)
class CandidateOptions:
    """Candidates for the dictionary; the best one is kept."""

    rank: Rank
    alpha: Alpha
    held_out: HeldOut

    @property
    def ranks(self) -> list[int]:
        """Numbers of spectra."""
        return [int(number) for number in numbers("--rank", self.rank, int)]

    @property
    def alphas(self) -> list[float]:
        """Tail indices."""
        return numbers("--alpha", self.alpha, float)


@dataclass(frozen=True)
class TrainingOptions:
    """How a dictionary is trained."""

    rate: Rate
    voices: Voices
    seconds: Seconds
    stream: Stream
    sampler: Sampler
    steps: Steps
    seed: Seed

    def settings(self) -> TrainingSettings:
        """Return the settings of the training."""
        from alphamf.training.dictionary.settings import TrainingSettings

        return TrainingSettings(**vars(self))
