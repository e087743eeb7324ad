"""``alphamf info``: what a recording or a model holds."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from alphamf.audio.inputs import STREAM
from alphamf.cli import report

if TYPE_CHECKING:
    from alphamf.learnt.dictionary import Dictionary
    from alphamf.learnt.network_file import TrainedNetwork


def info(
    name: Annotated[
        str,
        typer.Argument(metavar="FILE|MODEL", help="A recording, - for standard input, or a model."),
    ],
) -> None:
    """Show what a recording or a model holds."""
    from alphamf.learnt import dictionary, network_file

    with report.user_errors():
        if name in network_file.shipped():
            lines = _model_lines(network_file.TrainedNetwork.load(network_file.shipped()[name]))
        elif name in dictionary.shipped() or name.endswith(".npz"):
            lines = _model_lines(dictionary.load(name))
        else:
            lines = _audio_lines(name)
    typer.echo("\n".join(f"{key:12}{value}" for key, value in lines.items()))


def describe(model: Dictionary) -> str:
    """Return the essence of a model in a few words."""
    frames = f"{model.context} frames" if model.context > 1 else "1 frame"
    return f"{model.rate} Hz, {model.rank} columns of {frames}, alpha {model.alpha:g}"


def _audio_lines(name: str) -> dict[str, str]:
    from alphamf.audio.reader import open_reader
    from alphamf.learnt.dictionary import choose

    with open_reader(sys.stdin.buffer if name == STREAM else name) as reader:
        model = choose("auto", reader.rate)
        minutes, seconds = divmod(reader.duration, 60)
        hours, minutes = divmod(int(minutes), 60)
        return {
            "file": reader.name,
            "format": f"{reader.format} {reader.subtype}",
            "rate": f"{reader.rate} Hz",
            "channels": str(reader.channels),
            "length": f"{hours}:{minutes:02}:{seconds:06.3f} ({reader.frames} samples)",
            "peak": _level(reader.peak),
            "rms": _level(reader.rms),
            "model": f"{model.name} ({describe(model)})",
        }


def _level(amplitude: float) -> str:
    if amplitude == 0:
        return "digital silence"
    return f"{20 * math.log10(amplitude):.1f} dB of full scale"


def _model_lines(model: Dictionary | TrainedNetwork) -> dict[str, str]:
    from alphamf.learnt.dictionary import Dictionary

    rate, (n_fft, hop_length) = model.rate, model.frame
    lines = {
        "rate": f"{rate} Hz",
        "window": f"{n_fft} samples ({1000 * n_fft / rate:g} ms)",
        "hop": f"{hop_length} samples ({1000 * hop_length / rate:g} ms)",
    }
    if isinstance(model, Dictionary):
        lines |= {
            "columns": str(model.rank),
            "frames": f"{model.context} in a column",
            "alpha": f"{model.alpha:g}",
        }
    return {**lines, **{str(key): str(value) for key, value in model.about.items()}}
