"""Options of ``alphamf train``."""

from __future__ import annotations

from typing import Annotated

import typer

from alphamf.cli.options import seed_option

Output = Annotated[
    str, typer.Option("--output", "-o", metavar="MODEL.npz", help="Output file for the model.")
]

Rate = Annotated[
    int | None,
    typer.Option(
        metavar="HZ",
        help="Sampling rate of the model, 4000 to 48000 (16000, or 8000 if a file has less "
        "than 16000).",
        show_default=False,
    ),
]

Rank = Annotated[int, typer.Option(metavar="K", help="Number of spectra to learn.")]

Alpha = Annotated[
    float, typer.Option(metavar="A", help="Tail index, 0.5 to 2; values near 1 denoise best.")
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

Steps = Annotated[int, typer.Option(metavar="N", help="Number of steps of the chain.")]

Seed = Annotated[int, seed_option("model")]

Overwrite = Annotated[bool, typer.Option("--overwrite", help="Overwrite the model if it exists.")]
