"""``alphamf models``: list the dictionaries and networks in the package."""

from __future__ import annotations

from pathlib import Path

import typer

from alphamf.cli import report


def models() -> None:
    """List the dictionaries and networks that come with alphamf."""
    from alphamf.learnt import dictionary, network_file
    from alphamf.learnt.description import summary

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
