"""``alphamf experiment``: reproduce the papers' tables and figures."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alphamf.cli import report
from alphamf.cli.options import Quiet
from alphamf.errors import AlphaMFError
from alphamf.tools import pool
from alphamf.tools.extras import require_package

if TYPE_CHECKING:
    from alphamf.research.experiments.base import Experiment


def experiment(
    name: Annotated[
        str,
        typer.Argument(metavar="[NAME|list]", help="Name of the experiment; 'list' lists all."),
    ] = "list",
    full: Annotated[bool, typer.Option("--full", help="Run in full instead of shortened.")] = False,
    output: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for the table, figure and numbers.")
    ] = Path("experiments"),
    jobs: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Number of processes; 0: one per core.", show_default="0"
        ),
    ] = 0,
    seed: Annotated[
        int, typer.Option(metavar="N", min=0, help="Seed; equal seeds give equal numbers.")
    ] = 0,
    quiet: Quiet = False,
) -> None:
    """Reproduce a table or figure of a paper; the same command continues a stopped run."""
    with report.user_errors():
        from alphamf.research.experiments.catalogue import EXPERIMENTS

        if name == "list":
            _list(EXPERIMENTS.values())
            return
        if name not in EXPERIMENTS:
            raise AlphaMFError(
                f"unknown experiment {name!r}; it must be one of {', '.join(EXPERIMENTS)}"
            )
        require_package("an experiment's figure", "matplotlib", "report")
        from alphamf.research.experiments.base import markdown
        from alphamf.research.experiments.run import in_processes, run

        note = None if quiet else partial(typer.echo, err=True)

        with report.continued_later(quiet=quiet), report.progress(quiet, "jobs") as update:

            def progress(done: int, total: int) -> None:
                if update is not None:
                    update(name, done, total)

            rows = run(
                EXPERIMENTS[name],
                output,
                full=full,
                seed=seed,
                each=partial(in_processes, workers=jobs or pool.cores(), report=note),
                progress=progress,
            )
    # Of several MPI ranks only the first has rows.
    if rows and not quiet:
        stem = f"{name}-full" if full else name
        typer.echo(f"{markdown(rows)}\n\n{output / stem}.csv, .md, .png and .jsonl")


def _list(experiments: Iterable[Experiment]) -> None:
    for known in experiments:
        quick, long = (f"{minutes:g} min" for minutes in known.minutes)
        typer.echo(f"{known.name:24}{known.paper:60}{quick:>8}, full {long:>8}")
