"""``alphamf experiment``: the papers' tables and figures."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from alphamf.cli import report
from alphamf.errors import AlphaMFError


def experiment(
    name: Annotated[
        str, typer.Argument(metavar="[NAME|list]", help="Experiment, or list.")
    ] = "list",
    full: Annotated[bool, typer.Option("--full", help="The paper's sizes.")] = False,
    output: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of CSV, PNG and Markdown.")
    ] = Path("experiments"),
    jobs: Annotated[
        int, typer.Option(metavar="N", min=0, help="Processes; 0: one per core.", show_default="0")
    ] = 0,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="The same seed, the same run.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")] = False,
) -> None:
    """Run an experiment of the papers again; a run that was stopped goes on."""
    with report.user_errors():
        from alphamf.experiments import EXPERIMENTS

        if name == "list":
            for known in EXPERIMENTS.values():
                quick, long = (f"{minutes:g} min" for minutes in known.minutes)
                typer.echo(f"{known.name:18}{known.paper:60}{quick:>8}, full {long:>8}")
            return
        if name not in EXPERIMENTS:
            raise AlphaMFError(
                f"there is no experiment {name!r}: it must be one of {', '.join(EXPERIMENTS)}"
            )
        from alphamf.experiments.base import markdown, run

        with report.progress(quiet, "jobs") as update:

            def progress(done: int, total: int) -> None:
                if update is not None:
                    update(name, done, total)

            rows = run(
                EXPERIMENTS[name],
                output,
                full=full,
                seed=seed,
                workers=jobs or os.cpu_count() or 1,
                progress=progress,
            )
    # Of several MPI ranks only the first has rows.
    if rows and not quiet:
        stem = f"{name}-full" if full else name
        typer.echo(f"{markdown(rows)}\n\n{output / stem}.csv, .md, .png and .jsonl")
