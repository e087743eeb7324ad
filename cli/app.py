"""The command line. Heavy libraries are imported only by the commands that need them."""

from __future__ import annotations

import logging
import os
import signal
from typing import Annotated

import typer

from alphamf.cli import (
    adapt,
    denoise,
    evaluate,
    experiment,
    help,
    info,
    live,
    mix,
    plugin,
    report,
    serve,
    train,
)
from alphamf.cli.help import Command, DenoiseCommand, Group
from alphamf.tools import machine
from alphamf.tools.stopping import end_on_signals

LOOPS = "default", "unfused", "v3", "v4", "bf16", "amx"
"""Copies of the compiled loops, of which the environment variable ALPHAMF_LOOPS may name one."""

app = typer.Typer(
    name="alphamf",
    cls=Group,
    no_args_is_help=True,
    epilog=help.epilog("alphamf"),
    rich_markup_mode=None,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    denoise.denoise,
    live.live,
    serve.serve,
    train.train,
    adapt.adapt,
    mix.mix,
    evaluate.evaluate,
    info.info,
    info.models,
):
    kind = DenoiseCommand if command is denoise.denoise else Command
    app.command(cls=kind, epilog=help.epilog(command.__name__))(command)
app.add_typer(plugin.plugin, name="plugin", epilog=help.epilog("plugin"))
app.command(cls=Command, epilog=help.epilog("experiment"))(experiment.experiment)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"alphamf {version('alphamf')}")
        raise typer.Exit


@app.callback()
def alphamf(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Remove noise from recorded speech, and report how certain the result is."""
    # One thread a process: files are worked on side by side, and the order of additions inside
    # a product, so the last bit of the result, must not depend on how many cores are free.
    for name in machine.VARIABLES:
        os.environ.setdefault(name, "1")
    # What a stream has to say comes with its result.
    logging.getLogger("alphamf.denoising").addHandler(logging.NullHandler())
    if (loops := os.environ.get("ALPHAMF_LOOPS", "")) not in ("", *LOOPS):
        typer.echo(f"Error: ALPHAMF_LOOPS must be {', '.join(LOOPS)}, not {loops!r}", err=True)
        raise typer.Exit(2)


def main() -> None:
    """Run the command line (entry point of the console script)."""
    try:
        output = report.prepare()
        # Half-written files go and the workers end.
        end_on_signals()
        app()
    except KeyboardInterrupt as stop:  # before a command has begun; later typer says "Aborted."
        raise SystemExit(128 + signal.SIGINT) from stop
    except SystemExit as end:
        if output.lost is None or end.code:
            raise
        typer.echo(f"Error: cannot write standard output: {output.lost}", err=True)
        raise SystemExit(2) from end
