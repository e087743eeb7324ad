r"""Check the calibration of the gain's standard deviation: predicted against true errors.

For example, on the test sentences of NOIZEUS at 5 dB, and on voices and noises of the corpora at
16 and 48 kHz on which nothing was trained::

    python -m benchmarks.calibration --presets fast,plain
    python -m benchmarks.calibration --rate 48000

The true gain of a cell is Re(S X*) / |X|^2, limited to 0 to 1, where S is the clean and X the noisy
spectrum: it is the best real gain. Cells of all clips are sorted by predicted variance and cut into
ten bins of equally many cells, or of equal power of the noisy clips. The mean squared error of each
bin is compared with its mean variance.
"""

from functools import partial
from typing import Annotated, NamedTuple

import numpy as np
from scipy.stats import spearmanr

from alphamf.audio import stft
from alphamf.denoising.api import denoise
from alphamf.denoising.grids import native_grid
from alphamf.denoising.settings import PRESETS
from alphamf.learnt.dictionary import choose
from alphamf.tools import pool, tables
from alphamf.tools.arrays import Floats
from benchmarks.clips import Clip, noizeus, pairs
from benchmarks.clips import clips as made_clips
from benchmarks.full_band import mixtures
from benchmarks.methods import names_of
from benchmarks.report import run_main

BINS = 10
HEADINGS = ["preset", "clips", "rank correlation", "bins of cells", "bins of power"]
NEAR = 0.2  # Largest relative difference of the predicted from the true error of a bin


class Cells(NamedTuple):
    """Predicted variance, true error and power of the cells of a clip, shape (cells,) each."""

    variance: Floats
    error: Floats  # Squared error of the gain
    power: Floats  # Power of the noisy clip, divided by its mean


class Curve(NamedTuple):
    """Calibration of a preset: variance and squared error by bin, and rank correlations."""

    # Means in bins of equally many cells, and of equal power, shape (2, `BINS`).
    variance: Floats
    error: Floats
    correlations: list[float]  # Rank correlation of variance and error for each clip


def sounds(rate: int, split: str) -> list[Clip]:
    """Return noisy clips: NOIZEUS at 5 dB at 8 kHz, mixtures of the corpora at 16 and 48 kHz."""
    if rate == 8000:
        return noizeus(pairs(split, ["5"]))
    return made_clips(rate, 40, split) if rate == 16000 else mixtures(split)


def cells(clip: Clip, preset: str) -> Cells:
    """Denoise a clip, and return its cells that have power: their variance, error and power."""
    found = denoise(clip.noisy, clip.rate, PRESETS[preset])
    frame = native_grid(choose("auto", clip.rate), clip.rate).frame
    mixture, speech = (stft.forward(sound, frame) for sound in (clip.noisy, clip.clean))
    power = np.abs(mixture) ** 2
    some = power > 0
    true = np.clip((speech * mixture.conj()).real[some] / power[some], 0, 1)
    gain, std = found.gain[0][some], found.gain_std[0][some]
    return Cells(std**2, (true - gain) ** 2, power[some] / power.mean())


def curve(clips: list[Cells]) -> Curve:
    """Return the calibration: cells of all clips, sorted into bins by predicted variance."""
    variance, error, power = (np.concatenate(each) for each in zip(*clips, strict=True))
    order = np.argsort(variance, kind="stable")
    means = []
    for weight in (np.ones_like(power), power):
        part = weight[order].cumsum(dtype=float)
        groups = np.split(order, np.searchsorted(part, part[-1] * np.arange(1, BINS) / BINS))
        means.append(
            [[np.average(x[g], weights=weight[g]) for g in groups] for x in (variance, error)]
        )
    found = np.array(means).swapaxes(0, 1)
    ranks = [float(spearmanr(clip.variance, clip.error).statistic) for clip in clips]
    return Curve(found[0], found[1], ranks)


def table(curves: dict[str, Curve]) -> list[list[str]]:
    """Return a line per preset: clips, rank correlation, bins with nearly the true error."""
    lines = [HEADINGS]
    for name, found in curves.items():
        near = np.abs(np.sqrt(found.variance / found.error) - 1) < NEAR
        rank = tables.format_mean(*tables.mean_and_error(found.correlations), 3)
        counts = (str(each) for each in near.sum(axis=1))
        lines.append([name, str(len(found.correlations)), rank, *counts])
    return lines


def main(
    *,
    presets: str = "fast",
    rate: Annotated[int, (8000, 16000, 48000)] = 8000,
    split: Annotated[str, ("train", "dev", "test")] = "test",
    jobs: int = 2,
) -> list[list[str]]:
    """Denoise the clips with each preset, and return the table."""
    names, noisy = names_of(presets), sounds(rate, split)
    curves = {
        name: curve(list(pool.results(partial(cells, preset=name), noisy, workers=jobs)))
        for name in names
    }
    return table(curves)


if __name__ == "__main__":
    run_main(main)
