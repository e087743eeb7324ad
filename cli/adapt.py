"""``alphamf adapt``: fine-tune a shipped network on the user's own recordings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from alphamf.batch.inputs import STREAM
from alphamf.cli import report
from alphamf.cli.options import NoSandbox, Quiet, check_least, seed_option
from alphamf.cli.train import check_output
from alphamf.errors import AlphaMFError
from alphamf.tools.files import printable_name
from alphamf.tools.outcomes import Update

if TYPE_CHECKING:
    from alphamf.training.refiner.adapt import FineTuningResult

RATES = (8000, 16000)

NAMES = {"si_sdr": "SI-SDR", "pesq": "PESQ", "estoi": "ESTOI"}
"""Names of the scores as they are printed."""


def adapt(
    clean: Annotated[
        list[str],
        typer.Option(
            metavar="CLEAN",
            help="Clean recordings of your voices: a file, folder or pattern; can be repeated.",
        ),
    ],
    noise: Annotated[
        list[str],
        typer.Option(
            metavar="NOISE",
            help="Noises without speech: a file, folder or pattern; can be repeated.",
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
        float, typer.Option(metavar="MIN", help="Approximate total time in minutes.")
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
    """Fine-tune the shipped network on your own voices and noises.

    About a fifth of the recordings is held out. Mixtures of these are scored before and after; the
    network is written only if no score falls and at least one rises.
    Needs PyTorch (0.8 GB without CUDA): install the extra 'alphamf[learn]'.
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
        check_least("--jobs", jobs, 1)
        check_least("--seed", seed, 0)
        check_output(output, overwrite=overwrite)
        wish = FineTuningSettings(clean, noise, rate, minutes, jobs or cores(), seed)
        with report.progress(quiet, "%") as update:
            found = work(wish, _Progress(printable_name(output), update, quiet=quiet))
        if not quiet:
            _print(found)
        if found.worse:
            fell = " and ".join(NAMES[name] for name in found.worse)
            raise AlphaMFError(
                f"the fine-tuned network is not better on the held-out mixtures ({fell} did not "
                f"rise), so {printable_name(output)} was not written"
            )
        found.refiner.save(output, replace=overwrite)
    if not quiet:
        typer.echo(f"{printable_name(output)}: {found.steps} steps, {found.clips} mixtures")
        own, band = printable_name(output), f"{rate // 1000}k"
        options = f"--model speech-{band} --network {own} --network second-stage-{band}"
        typer.echo(f"alphamf denoise RECORDING {options}")


class _Progress:
    """A callback that shows the progress of a run as one bar, and prints each stage once."""

    def __init__(self, name: str, update: Update | None, *, quiet: bool) -> None:
        self._name, self._update, self._quiet, self._stage = name, update, quiet, ""

    def __call__(self, stage: str, share: float) -> None:
        """Show `share`, the fraction of work that is done; print a new `stage`, unless quiet."""
        if stage != self._stage and not self._quiet:
            report.say(stage, err=True)
        self._stage = stage
        if self._update is not None:
            self._update(self._name, 100 * share, 100)


def _print(found: FineTuningResult) -> None:
    """Print the scores of the held-out mixtures before and after."""
    rows = [
        [name, f"{scores.si_sdr:.2f}", f"{scores.pesq:.3f}", f"{scores.estoi:.3f}"]
        for name, scores in (("before", found.before), ("after", found.after))
    ]
    report.table(["held out", "SI-SDR dB", "PESQ", "ESTOI"], rows)
