"""``alphamf adapt``: fine-tune a shipped network on the user's own recordings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from alphamf.batch.inputs import STREAM
from alphamf.cli import report
from alphamf.cli.options import NoSandbox, Quiet, seed_option
from alphamf.cli.train import check_output
from alphamf.errors import AlphaMFError
from alphamf.tools.files import printable_name

if TYPE_CHECKING:
    from alphamf.training.refiner.adapt import FineTuningResult

RATES = (8000, 16000)


def adapt(
    clean: Annotated[
        list[str],
        typer.Option(
            metavar="CLEAN",
            help="Clean speech of your voices: a file, folder or pattern; can be repeated.",
            show_default=False,
        ),
    ],
    noise: Annotated[
        list[str],
        typer.Option(
            metavar="NOISE",
            help="Your noises, without speech: a file, folder or pattern; can be repeated.",
            show_default=False,
        ),
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="MINE.npz", help="Output file for the network.")
    ],
    rate: Annotated[
        int,
        typer.Option(
            metavar="8000|16000", help="Sampling rate in Hz of the shipped network to fine-tune."
        ),
    ] = 16000,
    minutes: Annotated[
        float, typer.Option(metavar="MIN", help="Approximate training time in minutes.")
    ] = 15.0,
    jobs: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Number of processes (default: one per core).", show_default=False
        ),
    ] = None,
    seed: Annotated[int, seed_option("mixtures")] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Overwrite the network if it exists.")
    ] = False,
    no_sandbox: NoSandbox = False,
    quiet: Quiet = False,
) -> None:
    r"""Fine-tune the shipped network on your own voices and noises.

    One fifth of the voices and noises is held out. Mixtures of these files give the scores before
    and after; if the new network is not better on them, no file is written.
    Needs PyTorch: pip install 'alphamf\[learn]'.
    """
    from alphamf.tools.pool import cores
    from alphamf.training.refiner.adapt import FineTuningSettings
    from alphamf.training.refiner.adapt import adapt as work

    with report.user_errors():
        if STREAM in (*clean, *noise):
            raise AlphaMFError("standard input cannot be used for training; give file names")
        if rate not in RATES:
            raise AlphaMFError(f"--rate must be 8000 or 16000, not {rate}")
        if not 0 < minutes < 1e4:
            raise AlphaMFError(f"--minutes must be above 0, not {minutes:g}")
        if jobs is not None and jobs < 1:
            raise AlphaMFError(f"--jobs must be at least 1, not {jobs}")
        if seed < 0:
            raise AlphaMFError(f"--seed must be at least 0, not {seed}")
        check_output(output, overwrite=overwrite)
        wish = FineTuningSettings(clean, noise, rate, minutes, jobs or cores(), seed)
        found = work(wish, lambda line: None if quiet else typer.echo(line, err=True))
        if not quiet:
            _print(found)
        if not found.gained > 0:
            raise AlphaMFError(
                "the fine-tuned network is not better on the held-out mixtures, so "
                f"{printable_name(output)} was not written"
            )
        found.refiner.save(output, replace=overwrite)
    if not quiet:
        typer.echo(f"{printable_name(output)}: {found.steps} steps, {found.clips} mixtures")
        typer.echo(f"alphamf denoise RECORDING {_options(output, rate)}")


def _options(output: str, rate: int) -> str:
    """Return the denoising settings and weights with which the network is evaluated."""
    stage = " --network second-stage-16k" if rate == 16000 else ""
    return f"--model speech-{rate // 1000}k --network {printable_name(output)}{stage}"


def _print(found: FineTuningResult) -> None:
    """Print the scores of the held-out mixtures before and after."""
    rows = [
        [name, f"{scores.si_sdr:.2f}", f"{scores.pesq:.3f}", f"{scores.estoi:.3f}"]
        for name, scores in (("before", found.before), ("after", found.after))
    ]
    report.table(["held out", "SI-SDR dB", "PESQ", "ESTOI"], rows)
