"""The command line, and how its help is printed; commands import heavy libraries when they run."""

import logging
import os
import signal
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from alphamf.cli import (
    denoise,
    evaluate,
    experiment,
    info,
    live,
    mix,
    plugin,
    report,
    separate,
    serve,
    train,
)
from alphamf.tools import machine
from alphamf.tools.files import printable_name
from alphamf.tools.stopping import end_on_signals

LOOPS = "default", "unfused", "v3", "v4", "bf16", "amx"
"""Variants of the compiled loops; the environment variable ALPHAMF_LOOPS may choose one."""

EXAMPLES = {
    "alphamf": (
        "alphamf denoise talk.wav",
        "alphamf live",
        "alphamf serve",
        "alphamf COMMAND --help",
    ),
    "denoise": (
        "alphamf denoise talk.wav",
        "alphamf denoise talk.mp4 --strength 80% --normalize podcast",
        "alphamf denoise talks/ --output-dir clean/",
        "alphamf denoise talk.wav --dereverb",
        "alphamf denoise call.wav --noise-from 0:00-0:03 --plot call.png",
        "alphamf denoise - -o - --latency low < talk.wav > clean.wav",
    ),
    "live": (
        "alphamf live",
        "alphamf live --list-devices",
        "alphamf live --input headset --strength 80% --record takes/",
    ),
    "serve": ("alphamf serve", "alphamf serve --port 8000 --no-browser"),
    "train": (
        "alphamf train clean-speech/ -o mine.npz",
        "alphamf train voices/ -o mine.npz --voices folder --rate 8000",
    ),
    "adapt": (
        "alphamf adapt --clean my-voices/ --noise my-noises/ -o mine.npz",
        "alphamf adapt --clean calls/ --noise hum.wav -o mine.npz --minutes 30",
    ),
    "separate": (
        "alphamf separate song.wav -s voice=speech-16k -s rest=8 --keep rest",
        "alphamf separate duo.wav -s piano=piano-alone.wav -s violin=violin-alone.wav",
    ),
    "mix": (
        "alphamf mix clean-speech/ --noise my-noises/ -o corpus --snr 0,5,10",
        "alphamf mix clean-speech/ --noise fan.wav -o corpus --count 100 --rate 16000",
    ),
    "evaluate": (
        "alphamf evaluate --pairs corpus/pairs.csv --method noisy,logmmse,fast",
        "alphamf evaluate --clean clean/ --noisy 'noisy/*' --method fast,other=out/",
    ),
    "info": ("alphamf info talk.wav", "alphamf info speech-16k"),
    "models": ("alphamf models", "alphamf info refiner-16k"),
    "plugin": ("alphamf plugin install", "alphamf plugin path"),
    "experiment": ("alphamf experiment list", "alphamf experiment hamcmc-gaussian"),
}
"""Examples of command lines by command; the one that most people need comes first."""


def epilog(command: str) -> str:
    """Return the end of a command's help: its examples, one per line."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in EXAMPLES[command])])


COLUMN = 26
"""Maximum width of an option's name and value; if wider, its help begins on the next line."""


class Command(TyperCommand):
    """A command whose help lists the options under the heading that each has."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and options with their help, in two columns, by heading."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for each in self.get_params(ctx):
            if (record := each.get_help_record(ctx)) is None:
                continue
            heading = getattr(each, "rich_help_panel", None) or "Options"
            if not isinstance(each, TyperOption):
                heading, record = "Arguments", (record[0].partition(" ")[0], record[1])
            groups.setdefault(heading, []).append(record)
        for heading, rows in groups.items():
            with formatter.section(heading):
                formatter.write_dl(rows, col_max=COLUMN)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of the command line; if some are left over, fail and show examples."""
        ctx.allow_extra_args = True  # they are refused below, with examples
        try:
            extra = super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise
        if extra and not ctx.resilient_parsing:
            forms = ", or ".join(EXAMPLES.get(self.name or "", ()))
            words = " ".join(map(printable_name, extra))
            ctx.fail(f"unexpected {words}" + (f"; write, for example: {forms}" if forms else ""))
        return extra


class Group(TyperGroup):
    """A group whose help lists each command with the whole first paragraph of its help."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the name of each command, and the first paragraph of its help."""
        commands = self.commands.items()
        rows = [(name, (each.help or "").partition("\n\n")[0]) for name, each in commands]
        with formatter.section("Commands"):
            formatter.write_dl([(name, " ".join(text.split())) for name, text in rows])


class DenoiseCommand(Command):
    """The command ``denoise``, whose option --dereverb may have no value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words; give --dereverb the value 1 if no number or percentage follows."""
        given: list[str] = []
        for k, word in enumerate(args):
            given.append(word)
            if word == "--" or (word == "--dereverb" and _is_share(args[k + 1 : k + 2])):
                given += args[k + 1 :]
                break
            if word == "--dereverb":
                given.append("1")
        return super().parse_args(ctx, given)


def _is_share(following: list[str]) -> bool:
    """Return whether the word after an option, if any, is a number or a percentage."""
    try:
        float("".join(following).removesuffix("%"))
    except ValueError:
        return False
    return True


app = typer.Typer(
    name="alphamf",
    cls=Group,
    no_args_is_help=True,
    epilog=epilog("alphamf"),
    rich_markup_mode=None,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    denoise.denoise,
    live.live,
    serve.serve,
    train.train,
    train.adapt,
    separate.separate,
    mix.mix,
    evaluate.evaluate,
    info.info,
    info.models,
):
    kind = DenoiseCommand if command is denoise.denoise else Command
    app.command(cls=kind, epilog=epilog(command.__name__))(command)
app.add_typer(plugin.plugin, name="plugin", cls=Group, epilog=epilog("plugin"))
app.command(cls=Command, epilog=epilog("experiment"))(experiment.experiment)


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
    # One thread per process: files are processed in parallel, and the order of additions inside
    # a product, so the last bit of the result, must not depend on how many cores are free.
    for name in machine.VARIABLES:
        os.environ.setdefault(name, "1")
    # The notes of a stream are printed with its result.
    logging.getLogger("alphamf.denoising").addHandler(logging.NullHandler())
    if (loops := os.environ.get("ALPHAMF_LOOPS", "")) not in ("", *LOOPS):
        typer.echo(f"Error: ALPHAMF_LOOPS must be {', '.join(LOOPS)}, not {loops!r}", err=True)
        raise typer.Exit(2)


def main() -> None:
    """Run the command line; exit with code 2 if only writing to standard output failed."""
    try:
        output = report.prepare()
        # So that incomplete files are deleted and the workers end.
        end_on_signals()
        app()
    except KeyboardInterrupt as stop:  # before a command has begun; later typer says "Aborted."
        raise SystemExit(128 + signal.SIGINT) from stop
    except SystemExit as end:
        if output.lost is None or end.code:
            raise
        typer.echo(f"Error: cannot write standard output: {output.lost}", err=True)
        raise SystemExit(2) from end
