"""``alphamf info`` and ``alphamf models``: describe a file or model, list shipped models."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alphamf.audio.decoder import sandbox
from alphamf.batch.inputs import STREAM
from alphamf.cli import report
from alphamf.cli.options import NoSandbox

if TYPE_CHECKING:
    from alphamf.audio.reader import Reader
    from alphamf.audio.room import Estimate, RoomEstimate
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
            sandbox.prepare()
            if name == STREAM:
                report.check_input()
            with open_reader(sys.stdin.buffer if name == STREAM else name) as reader:
                _recording(reader, as_json)
                if reader.cut:
                    raise typer.Exit(2)


def _model(model: Dictionary | TrainedNetwork, as_json: bool) -> None:
    from alphamf.learnt.network_file import details, facts

    if as_json:
        report.json_line(facts(model))
    else:
        _print(details(model))


def _recording(reader: Reader, as_json: bool) -> None:
    from alphamf.learnt.dictionary import choose
    from alphamf.learnt.network_file import summary

    model = choose("auto", reader.rate)
    if as_json:
        found = _room(reader)
        report.json_line(_measured(reader) | {"model": model.name, "room": _as_numbers(found)})
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
            **({"note": note} if (note := reader.cut or reader.note) else {}),
            **_described(_room(reader)),
            "sandbox": report.with_options(sandbox.state()),
        }
    )


def _measured(reader: Reader) -> dict[str, Any]:
    """Return the properties of a recording for JSON; the level of digital silence is None."""
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
        "cut": reader.cut,
    }


def _room(reader: Reader) -> RoomEstimate:
    """Estimate the acoustics of the room, from the first two minutes of the first two channels."""
    from alphamf.audio.room import RoomMeter

    meter = RoomMeter(reader.rate)
    for block in reader.blocks():
        meter.add(block[:, :2])
        if meter.full:
            break
    return meter.estimate()


def _described(room: RoomEstimate) -> dict[str, str]:
    """Describe the acoustics of the room as text by heading, with intervals in parentheses."""
    if room.reason:
        return {"room": f"unknown: {room.reason}"}

    def seconds(time: Estimate | None) -> str:
        return f"{time.value:.2f} s ({time.low:.2f} to {time.high:.2f})" if time else "unknown"

    ratio = room.drr
    direct = f"{ratio.value:.0f} dB ({ratio.low:.0f} to {ratio.high:.0f})" if ratio else "unknown"
    bands = (f"{band} Hz {seconds(time)}" for band, time in room.bands.items())
    return {
        "room": f"RT60 {seconds(room.rt60)}, direct-to-reverberant ratio {direct}",
        "bands": f"RT60 at {', '.join(bands)}",
    }


def _as_numbers(room: RoomEstimate) -> dict[str, Any]:
    """Return the acoustics of the room for JSON; unknown numbers are None."""

    def number(estimate: Estimate | None) -> dict[str, float] | None:
        return estimate._asdict() if estimate else None

    return {
        "rt60": number(room.rt60),
        "rt60_by_band": {str(band): number(time) for band, time in room.bands.items()},
        "drr_db": number(room.drr),
        "reason": room.reason,
    }


def _print(lines: dict[str, str]) -> None:
    width = max(12, *(len(key) + 2 for key in lines))
    typer.echo("\n".join(f"{key:{width}}{value}" for key, value in lines.items()))


def _decibels(amplitude: float) -> float | None:
    return 20 * math.log10(amplitude) if amplitude else None


def _tracks(reader: Reader) -> dict[str, str]:
    """Return as text, by heading, a media file's track in use and its other streams, or {}."""
    track = reader.track
    if track is None:
        return {}
    kilobits = f"{track.bit_rate / 1000:.0f} kb/s"
    found = {"track": f"{track.number} of {track.count} ({track.codec}, {kilobits})"}
    return found | ({"others": ", ".join(track.others)} if track.others else {})


def _level(amplitude: float) -> str:
    level = _decibels(amplitude)
    return "digital silence" if level is None else f"{level:.1f} dB of full scale"


def models() -> None:
    """List the dictionaries and networks that come with alphamf."""
    from alphamf.learnt import dictionary, network_file
    from alphamf.learnt.network_file import summary

    rows = [("NAME", "WHAT", "SIZE")]
    with report.user_errors():
        for path in dictionary.shipped_dictionaries().values():
            rows.append(_row(path, summary(dictionary.load(path))))
        for path in network_file.shipped_networks().values():
            rows.append(_row(path, summary(network_file.TrainedNetwork.load(path))))
    widths = [max(map(len, column)) + 2 for column in zip(*rows, strict=True)]
    for name, what, size in rows:
        typer.echo(f"{name:{widths[0]}}{what:{widths[1]}}{size:>{widths[2]}}")


def _row(path: Path, summary: str) -> tuple[str, str, str]:
    return path.stem, summary, f"{path.stat().st_size // 1024} kB"
