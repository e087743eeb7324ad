"""``alphamf info``: the properties of a recording or a model."""

from __future__ import annotations

import math
import sys
from typing import Annotated

import typer

from alphamf.audio.inputs import STREAM
from alphamf.cli import report, streams


def info(
    name: Annotated[
        str,
        typer.Argument(metavar="FILE|MODEL", help="A recording, - for standard input, or a model."),
    ],
) -> None:
    """Show the properties of a recording or a model."""
    from alphamf.learnt import dictionary, network_file
    from alphamf.learnt.about import details

    with report.user_errors():
        if name in network_file.shipped():
            lines = details(network_file.TrainedNetwork.load(network_file.shipped()[name]))
        elif name in dictionary.shipped() or name.endswith(".npz"):
            lines = details(dictionary.load(name))
        else:
            lines = _recording(name)
    typer.echo("\n".join(f"{key:12}{value}" for key, value in lines.items()))


def _recording(name: str) -> dict[str, str]:
    from alphamf.audio.reader import open_reader
    from alphamf.learnt.about import summary
    from alphamf.learnt.dictionary import choose

    if name == STREAM:
        streams.check_input()
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
            "model": f"{model.name} ({summary(model)})",
        }


def _level(amplitude: float) -> str:
    if amplitude == 0:
        return "digital silence"
    return f"{20 * math.log10(amplitude):.1f} dB of full scale"
