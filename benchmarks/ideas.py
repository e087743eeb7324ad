r"""Measure single, cheap ideas for better denoising, each against the preset ``plain``.

For example::

    python -m benchmarks.ideas power floor
    python -m benchmarks.ideas --models 32ms.npz,128ms.npz --write

Clips are 40 of NOIZEUS's train sentences at 5 dB, five in each noise. An idea is a function of a
clip and of what ``plain`` made of it, which is ``balanced`` without a network; ``settings``,
``windows``, ``again`` and ``network`` run other chains, and only ``network`` has them refined. The
table has the mean differences from ``plain`` on the same clips, with standard errors over the
clips; in bold, those beyond three of them. With ``--write`` it goes to docs/log/quality.md.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

from alphamf.audio import stft
from alphamf.audio.reader import read
from alphamf.denoising.api import denoise
from alphamf.denoising.posterior import sample
from alphamf.denoising.settings import PRESETS, Settings
from alphamf.errors import AlphaMFError
from alphamf.evaluation.baselines import METHODS, Clip
from alphamf.evaluation.score import pesq, si_sdr, stoi
from alphamf.factorization.alpha_mf import AlphaMF
from alphamf.factorization.stacking import unstack
from alphamf.inference.records import Mean
from alphamf.learnt.dictionary import Dictionary, choose, load
from alphamf.tools import pool, tables
from alphamf.tools.arrays import Array, Floats
from benchmarks.pairs import files
from benchmarks.report import caption, publish

PAGE = Path(__file__).parents[1] / "docs" / "log" / "quality.md"
BASE = PRESETS["plain"]
CLIPS = 40
RATE = 8000
SEED = 0
SCORES = (("SI-SDR dB", 2), ("PESQ", 3), ("ESTOI", 4))
"""Headings and decimals."""

LEAST = 1e-4
"""Least gain whose logarithm is averaged: -80 dB."""

Scores = dict[tuple[str, str], list[float]]
"""Of a clip, by idea and setting; those of ``plain`` itself by two empty strings."""

Sounds = dict[str, Floats]
"""By setting."""


def statistics(theta: Array, target: AlphaMF, context: int) -> Floats:
    """Return the Wiener gain, its root and its logarithm, shape (3, bins, frames)."""
    gain = target.gain(theta)
    values = gain, np.sqrt(gain), np.log(np.maximum(gain, LEAST))
    return np.stack([unstack(value, context) for value in values])


def posterior(power: Floats, dictionary: Dictionary) -> Mean:
    """Run the chain of ``plain`` for `statistics`."""
    record = Mean(
        partial(statistics, context=dictionary.context),
        burn_in=BASE.steps - BASE.keep,
        thin=BASE.thin,
    )
    sample(power, dictionary, BASE, (SEED, 0), [record])
    return record


class Case:
    """A noisy clip, and what ``plain`` makes of it: `gain`, `std`, `root` and `log`.

    `root` and `log` are the posterior means of the gain's root and logarithm; all four have the
    shape (bins, frames).
    """

    def __init__(self, clean: Floats, noisy: Floats, models: list[Path]) -> None:
        self.clean, self.noisy, self.models = clean, noisy, models
        dictionary = choose("auto", RATE)
        self.frame = dictionary.frame
        self.spectrum = stft.forward(noisy, self.frame)
        record = posterior(np.abs(self.spectrum) ** 2, dictionary)
        self.gain, self.root, self.log = record.mean
        self.std = record.std[0]

    @cached_property
    def base(self) -> Floats:
        """Output of ``plain``."""
        return self.sound(self.gain)

    def sound(self, gain: Floats) -> Floats:
        """Return what a gain leaves of the clip."""
        return stft.inverse(self.spectrum * gain, self.frame, len(self.noisy))

    def denoised(self, settings: Settings) -> Floats:
        """Return what other settings make of the clip."""
        return denoise(self.noisy, RATE, settings, seed=SEED).audio

    def scores(self, sound: Floats) -> list[float]:
        """Return the three scores of a sound."""
        return [
            si_sdr(self.clean, sound),
            pesq(self.clean, sound, RATE),
            stoi(self.clean, sound, RATE, extended=True),
        ]


def power(case: Case) -> Sounds:
    """Return the sounds of the gain to some powers."""
    return {f"g^{p}": case.sound(case.gain**p) for p in (0.8, 1.2, 1.5)}


def mean(case: Case) -> Sounds:
    """Return the sounds of other means of the gain."""
    return {
        "E √g": case.sound(case.root),
        "(E √g)²": case.sound(case.root**2),
        "exp E log g": case.sound(np.exp(case.log)),
    }


def logmmse(case: Case) -> Sounds:
    """Return the log-spectral amplitude estimator's sound, and its means with the base.

    Its gain is read from its output, as its windows are others.
    """
    other = METHODS["logmmse"].run(Clip(case.noisy, RATE, case.clean))
    noisy = np.maximum(np.abs(case.spectrum), np.finfo(np.float32).tiny)
    gain = np.minimum(np.abs(stft.forward(other, case.frame)) / noisy, 1)
    return {
        "logmmse alone": other,
        "mean of the signals": (case.base + other) / 2,
        "geometric mean of the gains": case.sound(np.sqrt(case.gain * gain)),
    }


def settings(case: Case) -> Sounds:
    """Return the sounds of other settings."""
    others = {
        "alpha_noise 1.6": replace(BASE, alpha_noise=1.6),
        "alpha_noise 2": replace(BASE, alpha_noise=2.0),
        "alpha_speech 0.8": replace(BASE, alpha_speech=0.8),
        "alpha_speech 1.3": replace(BASE, alpha_speech=1.3),
        "noise_rank 2": replace(BASE, noise_rank=2),
        "noise_rank 8": replace(BASE, noise_rank=8),
        "no channel": replace(BASE, learn_channel=False),
        "preset fast (EM)": replace(PRESETS["fast"], refine=False),
        "preset best": replace(PRESETS["best"], refine=False),
    }
    return {name: case.denoised(other) for name, other in others.items()}


def windows(case: Case) -> Sounds:
    """Return the sounds of other windows, and their mean with the base."""
    alone = {}
    for path in case.models:
        model = load(path)
        name = f"{1000 * model.frame.n_fft / model.rate:.0f} ms alone"
        alone[name] = denoise(case.noisy, RATE, BASE, model=model, seed=SEED).audio
    return alone | {"mean of the signals": np.mean([case.base, *alone.values()], axis=0)}


def uncertainty(case: Case) -> Sounds:
    """Return the sounds of the gain moved by its standard deviation, down or towards one."""
    sounds = {}
    for k in (0.5, 1):
        sounds[f"g (1 - {k} std)"] = case.sound(case.gain * (1 - k * case.std))
        sounds[f"g + {k} std (1 - g)"] = case.sound(case.gain + k * case.std * (1 - case.gain))
    return sounds


def floor(case: Case) -> Sounds:
    """Return the sounds of a gain that is never below a floor."""
    return {
        f"{db} dB": case.sound(np.maximum(case.gain, np.float32(10 ** (db / 20))))
        for db in (-20, -15)
    }


def again(case: Case) -> Sounds:
    """Return the sound of a second run on the first one's output."""
    return {"plain twice": denoise(case.base, RATE, BASE, seed=SEED + 1).audio}


def network(case: Case) -> Sounds:
    """Return the sounds of the presets with the network that reads the posterior."""
    names = ("fast", "balanced", "best")
    return {f"preset {name}, refined": case.denoised(PRESETS[name]) for name in names}


IDEAS: dict[str, Callable[[Case], Sounds]] = {
    idea.__name__: idea
    for idea in (power, mean, logmmse, settings, windows, uncertainty, floor, again, network)
}


def measure(names: list[str], models: list[Path], pair: tuple[Path, Path]) -> Scores:
    """Return the scores of a clip, given its clean and its noisy file."""
    (clean, _), (noisy, _) = (read(path) for path in pair)
    case = Case(clean[:, 0], noisy[:, 0], models)
    scores = {("", ""): case.scores(case.base)}
    for name in names:
        for setting, sound in IDEAS[name](case).items():
            scores[name, setting] = case.scores(sound)
    return scores


def table(clips: list[Scores]) -> str:
    """Return the table of differences from the base, which is its first line."""
    base = np.array([clip["", ""] for clip in clips])
    lines = []
    for idea, setting in clips[0]:
        values = np.array([clip[idea, setting] for clip in clips])
        line = ["plain", "itself, no difference"] if not idea else [idea, setting]
        for column, (_, decimals) in zip((values - base if idea else base).T, SCORES, strict=True):
            average, error = tables.mean_and_error(column)
            sign = "+" if idea else ""
            cell = f"{average:{sign}.{decimals}f} ± {error:.{decimals}f}"
            line.append(f"**{cell}**" if idea and abs(average) > 3 * error else cell)
        lines.append(line)
    return tables.markdown(["idea", "setting", *(heading for heading, _ in SCORES)], lines)


def clips() -> list[tuple[Path, Path]]:
    """Return the clean and the noisy file of each clip, evenly out of all in their order."""
    every = files(split="train", snrs=["5"])
    return [every[k] for k in np.linspace(0, len(every) - 1, CLIPS).astype(int)]


def main() -> None:
    """Measure what the command line names, and print or write its table."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.ideas",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    known = ", ".join(IDEAS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {known} (default: all)")
    parser.add_argument("--models", metavar="FILE,FILE", help="dictionaries of other windows")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default 1)")
    parser.add_argument(
        "--write", action="store_true", help="put the table into docs/log/quality.md"
    )
    asked = parser.parse_args()
    models = [Path(name).resolve() for name in asked.models.split(",")] if asked.models else []
    names = asked.names or [name for name in IDEAS if models or name != "windows"]
    if unknown := set(names) - set(IDEAS):
        parser.error(f"there is no {', '.join(sorted(unknown))}: ideas are {known}")
    if "windows" in names and not models:
        parser.error("windows needs --models")
    try:
        chosen = clips()
    except AlphaMFError as error:
        parser.error(str(error))
    found = pool.results(partial(measure, names, models), chosen, workers=asked.jobs)
    done = list(track(found, "Clips", len(chosen), console=Console(stderr=True)))
    made = caption("benchmarks.ideas", sys.argv[1:], ("alphamf", "numpy", "pesq", "pystoi"))
    text = f"{table(done)}\n\n{CLIPS} clips, seed {SEED}. {made}"
    publish(PAGE, "ideas", text, write=asked.write)


if __name__ == "__main__":
    main()
