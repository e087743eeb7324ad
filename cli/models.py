"""``alphamf models``: the dictionaries and networks in the package."""

from __future__ import annotations

from pathlib import Path

import typer

from alphamf.cli import report


def models() -> None:
    """List the speech models that come with alphamf."""
    from alphamf.learnt import dictionary, refiner
    from alphamf.learnt.about import summary

    with report.user_errors():
        for name, path in dictionary.shipped().items():
            _print(path, summary(dictionary.load(name)))
        for path in refiner.shipped().values():
            _print(path, summary(refiner.load(path)))


def _print(path: Path, summary: str) -> None:
    typer.echo(f"{path.stem:18}{summary:48}{path.stat().st_size // 1024:6} kB")
