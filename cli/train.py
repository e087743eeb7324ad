"""``alphamf train`` and ``adapt``: train a speech model, or a shipped network on."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alphamf.batch.inputs import STREAM, find, would_overwrite
from alphamf.cli import report
from alphamf.cli.options import Clean, NoSandbox, Quiet, check_least, seed_option
from alphamf.errors import AlphaMFError
from alphamf.tools.files import check_writable, exists_error, printable_name
from alphamf.tools.outcomes import Update

if TYPE_CHECKING:
    from alphamf.training.refiner.adapt import FineTuningResult


def train(
    clean: Clean,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="MODEL.npz", help="Output file for the model.")
    ],
    rate: Annotated[
        int | None,
        typer.Option(
            metavar="HZ",
            help="Sampling rate of the model, 4000 to 48000; by default 16000, or 8000 if a "
            "file has a lower rate than 16000.",
        ),
    ] = None,
    rank: Annotated[int, typer.Option(metavar="K", help="Number of spectra to learn.")] = 60,
    alpha: Annotated[
        float, typer.Option(metavar="A", help="Tail index of the model, 0.5 to 2; best near 1.")
    ] = 1.0,
    voices: Annotated[
        str,
        typer.Option(
            metavar="file|folder|prefix",
            help="What identifies a voice: the file, the first folder in which the paths "
            "differ, or the file's name up to the first - or _.",
        ),
    ] = "file",
    seconds: Annotated[
        float, typer.Option(metavar="S", help="Maximum speech per voice, in seconds.")
    ] = 5.0,
    sampler: Annotated[
        str, typer.Option(metavar="NAME", help="Sampler to train with; em: the EM algorithm.")
    ] = "em",
    above: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Learn only the band above 7.5 kHz, from speech at 48 kHz, and add it to a "
            "copy of this 16 kHz model. Of the other settings, only --seconds and --seed apply.",
        ),
    ] = None,
    steps: Annotated[int, typer.Option(metavar="N", help="Number of training steps.")] = 200,
    seed: Annotated[int, seed_option("model on the same machine")] = 0,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Overwrite the model if it exists.")
    ] = False,
    no_sandbox: NoSandbox = False,
    quiet: Quiet = False,
) -> None:
    """Train a speech model on clean recordings; it is rarely better than the shipped models.

    With the shipped networks, which are used by default, your own model improves little. If there
    are five voices or more, some are held out, and the model's effect on them is printed at the
    end. Training takes some minutes and up to 5 GB of memory.
    """
    given = {
        "rate": rate,
        "rank": rank,
        "alpha": alpha,
        "voices": voices,
        "seconds": seconds,
        "sampler": sampler,
        "steps": steps,
        "seed": seed,
    }
    with report.user_errors():
        if STREAM in clean:
            raise AlphaMFError("standard input cannot be used as clean speech; give file names")
        check_least("--seed", seed, 0)
        check_output(output, overwrite=overwrite)
        if above is not None:
            _extend(above, find(clean), output, seconds, seed, overwrite=overwrite, quiet=quiet)
        else:
            _train(clean, output, given, overwrite=overwrite, quiet=quiet)


def _train(
    clean: list[str], output: str, given: dict[str, Any], *, overwrite: bool, quiet: bool
) -> None:
    """Train and write a model; files that cannot be used are reported, and give exit code 2."""
    from alphamf.learnt.network_file import summary
    from alphamf.training.dictionary.api import hold_back, train
    from alphamf.training.dictionary.speech import group

    started = time.perf_counter()
    skipped: list[str] = []
    skip = partial(_report_skipped, skipped)
    files, tried = hold_back(group(find(clean), given["voices"]))
    with report.progress(quiet, "steps") as update:
        name = printable_name(output)
        shown = (lambda found: update(name, found.step, found.steps)) if update else None
        model = train(files, **given, progress=shown, skipped=skip)
    model.save(output, replace=overwrite)
    about = model.about
    if not quiet:
        by_voice = f" in {about['voices']} voices" if "voices" in about else ""
        typer.echo(
            f"{name}: {summary(model)}, from {about['files']} files{by_voice} "
            f"({about['seconds']:.0f} s of speech) in {time.perf_counter() - started:.1f} s"
        )
        _tell_gains(model, tried, skip)
    if skipped:
        raise typer.Exit(2)


def _tell_gains(model: Any, tried: list[str], skip: Callable[[str], None]) -> None:
    """Print how a model changes the SI-SDR of held-out voices, against the shipped model."""
    from alphamf.tools.tables import format_mean, mean_and_error
    from alphamf.training.dictionary.api import TRIED_SNR, gains_over_shipped

    changes = gains_over_shipped(model, tried, skip)
    if not (count := len(changes["fast"])):
        typer.echo("What it gains was not measured: that takes five voices of a second and more.")
        return
    gains = {name: mean_and_error(found) for name, found in changes.items()}
    said = [f"{format_mean(*gain, 2, '+')} dB ({name})" for name, gain in gains.items()]
    mean, error = gains["fast"]
    typer.echo(
        f"In noise at {TRIED_SNR:g} dB, on {f'{count} voices' if count > 1 else 'a voice'} held "
        f"back, it changes SI-SDR by {' and '.join(said)}, against the model of the package"
        + ("." if mean > (error if count > 1 else 0) else ": denoise without it.")
    )


def _extend(
    name: str,
    clean: list[str],
    output: str,
    seconds: float,
    seed: int,
    *,
    overwrite: bool,
    quiet: bool,
) -> None:
    """Write a copy of a model with added rows above its frequency band."""
    from alphamf.learnt.dictionary import load
    from alphamf.training.dictionary.band_extension import extend

    started = time.perf_counter()
    with report.progress(quiet, "files") as update:
        progress = update and partial(update, printable_name(output))
        extended = extend(load(name), clean, seconds=seconds, seed=seed, progress=progress)
    extended.save(output, replace=overwrite)
    if not quiet:
        typer.echo(
            f"{printable_name(output)}: {printable_name(name)} with rows above its band, "
            f"from {len(clean)} files in {time.perf_counter() - started:.1f} s"
        )


def _report_skipped(skipped: list[str], sentence: str) -> None:
    skipped.append(sentence)
    report.say(f"Error: {report.with_options(sentence)}", err=True)


def check_output(output: str, *, overwrite: bool) -> None:
    """Raise an AlphaMFError if an output must not or cannot be written, or is not an .npz file."""
    if not output.lower().endswith(".npz"):
        raise AlphaMFError(f"the output of -o must end in .npz, not {printable_name(output)}")
    check_writable(output)
    if would_overwrite(output) and not overwrite:
        raise exists_error(output)


RATES = (8000, 16000)

NAMES = {"si_sdr": "SI-SDR", "pesq": "PESQ", "estoi": "ESTOI"}


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
            _print_scores(found)
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


def _print_scores(found: FineTuningResult) -> None:
    """Print the scores of the held-out mixtures before and after."""
    rows = [
        [name, f"{scores.si_sdr:.2f}", f"{scores.pesq:.3f}", f"{scores.estoi:.3f}"]
        for name, scores in (("before", found.before), ("after", found.after))
    ]
    report.table(["held out", "SI-SDR dB", "PESQ", "ESTOI"], rows)
