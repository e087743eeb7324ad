"""``alphamf models``: list the dictionaries and networks in the package."""

from __future__ import annotations

from pathlib import Path

import typer

from alphamf.cli import report


def models() -> None:
    """List the dictionaries and networks that come with alphamf."""
    from alphamf.learnt import dictionary, network_file
    from alphamf.learnt.description import summary

    with report.user_errors():
        typer.echo(_row("NAME", "WHAT", "SIZE"))
        for path in dictionary.shipped_dictionaries().values():
            _print(path, summary(dictionary.load(path)))
        for path in network_file.shipped_networks().values():
            _print(path, summary(network_file.TrainedNetwork.load(path)))


def _print(path: Path, summary: str) -> None:
    typer.echo(_row(path.stem, summary, f"{path.stat().st_size // 1024} kB"))


def _row(name: str, summary: str, size: str) -> str:
    return f"{name:22}{summary:48}{size:>9}"
