"""``alphamf models``: the dictionaries in the package."""

from __future__ import annotations

import typer

from alphamf.cli import report
from alphamf.cli.info import describe


def models() -> None:
    """List the speech models that come with alphamf."""
    from alphamf import dictionary
    from alphamf.refinement import refiner

    with report.user_errors():
        for name, path in dictionary.shipped().items():
            kilobytes = path.stat().st_size // 1024
            typer.echo(f"{name:16}{describe(dictionary.load(name)):48}{kilobytes:6} kB")
        for name, path in refiner.shipped().items():
            kilobytes = path.stat().st_size // 1024
            rate = refiner.load(path).rate
            typer.echo(f"{name:16}{f'{rate} Hz, network that refines the gain':48}{kilobytes:6} kB")
