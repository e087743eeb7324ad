"""``alphamf info``: show the properties of a recording or a model."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alphamf.audio.decoder import helper
from alphamf.batch.inputs import STREAM
from alphamf.cli import report, streams
from alphamf.cli.options import NoSandbox

if TYPE_CHECKING:
    from alphamf.audio.reader import Reader
    from alphamf.learnt.dictionary import Dictionary
    from alphamf.learnt.network_file import TrainedNetwork


def info(
    name: Annotated[
        str,
        typer.Argument(metavar="FILE|MODEL", help="A recording, a model, or - for standard input."),
    ],
    no_sandbox: NoSandbox = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show the properties of a recording or a model."""
    from alphamf.audio.reader import open_reader
    from alphamf.learnt import dictionary, network_file

    with report.user_errors(as_json=as_json):
        network = network_file.find(name)
        if network_file.holds_network(network):
            _model(network_file.TrainedNetwork.load(network), as_json)
        elif name in dictionary.shipped_dictionaries() or name.endswith(".npz"):
            _model(dictionary.load(name), as_json)
        else:
            helper.prepare()
            if name == STREAM:
                streams.check_input()
            with open_reader(sys.stdin.buffer if name == STREAM else name) as reader:
                _recording(reader, as_json)


def _model(model: Dictionary | TrainedNetwork, as_json: bool) -> None:
    from alphamf.learnt.description import details, facts

    if as_json:
        report.json_line(facts(model))
    else:
        _print(details(model))


def _recording(reader: Reader, as_json: bool) -> None:
    from alphamf.learnt.description import summary
    from alphamf.learnt.dictionary import choose

    model = choose("auto", reader.rate)
    if as_json:
        report.json_line(_measured(reader) | {"model": model.name})
        return
    minutes, seconds = divmod(reader.duration, 60)
    hours, minutes = divmod(int(minutes), 60)
    _print(
        {
            "file": reader.name,
            "format": f"{reader.format} {reader.subtype}",
            "rate": f"{reader.rate} Hz",
            "channels": str(reader.channels),
            "length": f"{hours}:{minutes:02}:{seconds:06.3f} ({reader.frames} samples)",
            "peak": _level(reader.peak),
            "rms": _level(reader.rms),
            **_tracks(reader),
            "model": f"{model.name} ({summary(model)})",
            **({"note": reader.note} if reader.note else {}),
            "sandbox": report.with_options(helper.state()),
        }
    )


def _measured(reader: Reader) -> dict[str, Any]:
    """Return the properties of a recording as numbers; the level of digital silence is None."""
    return {
        "file": reader.name,
        "format": reader.format,
        "subtype": reader.subtype,
        "rate": reader.rate,
        "channels": reader.channels,
        "samples": reader.frames,
        "duration": reader.duration,
        "peak_db": _decibels(reader.peak),
        "rms_db": _decibels(reader.rms),
    }


def _print(lines: dict[str, str]) -> None:
    width = max(12, *(len(key) + 2 for key in lines))
    typer.echo("\n".join(f"{key:{width}}{value}" for key, value in lines.items()))


def _decibels(amplitude: float) -> float | None:
    return 20 * math.log10(amplitude) if amplitude else None


def _tracks(reader: Reader) -> dict[str, str]:
    """Return which audio track of a media file is used, and which other streams the file has."""
    track = reader.track
    if track is None:
        return {}
    kilobits = f"{track.bit_rate / 1000:.0f} kb/s"
    found = {"track": f"{track.number} of {track.count} ({track.codec}, {kilobits})"}
    return found | ({"others": ", ".join(track.others)} if track.others else {})


def _level(amplitude: float) -> str:
    level = _decibels(amplitude)
    return "digital silence" if level is None else f"{level:.1f} dB of full scale"
