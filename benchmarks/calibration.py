r"""Check the calibration of the gain's standard deviation: predicted against true errors.

For example, on the test sentences of NOIZEUS at 5 dB::

    python -m benchmarks.calibration --split test --snr 5 --presets fast,balanced,best,plain --write

The true gain of a cell is Re(S X*) / |X|^2 held between 0 and 1: the best real gain that can be
applied to the noisy sound. Cells of all clips are sorted by predicted variance, cut
into ten bins of as many cells, and each bin's mean squared error is set beside its mean variance.
With ``--write``, table and plot go to docs/log/quality.md and docs/figures/calibration.png.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.stats import spearmanr

from alphamf.audio import stft
from alphamf.audio.reader import read
from alphamf.denoising.api import PRESETS, denoise
from alphamf.denoising.grids import native_grid
from alphamf.errors import AlphaMFError
from alphamf.learnt.dictionary import choose
from alphamf.tools import pool, tables
from alphamf.tools.arrays import Floats
from alphamf.tools.files import atomic
from benchmarks.pairs import files
from benchmarks.report import caption, options_of, publish

DOCS = Path(__file__).parents[1] / "docs"
BINS = 10
HEADINGS = ("preset", "clips", "rank correlation", *(f"{k + 1}" for k in range(BINS)))


class Cells(NamedTuple):
    """Predicted variance and true squared error of the cells of a clip, shape (cells,) each."""

    variance: Floats
    error: Floats


class Curve(NamedTuple):
    """Calibration of a preset.

    Attributes
    ----------
    variance, error
        Means of the bins, shape (`BINS`,).
    correlations
        Rank correlation of each clip.
    """

    variance: Floats
    error: Floats
    correlations: list[float]


def cells(pair: tuple[Path, Path], preset: str) -> Cells:
    """Denoise a clip, and compare the gain with the true one.

    Parameters
    ----------
    pair
        The clean and the noisy file.
    """
    (clean, _), (noisy, rate) = (read(str(path)) for path in pair)
    found = denoise(noisy[:, 0], rate, PRESETS[preset])
    frame = native_grid(choose("auto", rate), rate).frame
    mixture, speech = (stft.forward(sound[:, 0], frame) for sound in (noisy, clean))
    power = np.abs(mixture) ** 2
    some = power > 0
    true = np.clip((speech * mixture.conj()).real[some] / power[some], 0, 1)
    return Cells(found.gain_std[0][some] ** 2, (true - found.gain[0][some]) ** 2)


def curve(clips: list[Cells]) -> Curve:
    """Sort the cells of all clips into bins by predicted variance."""
    variance, error = (np.concatenate(each) for each in zip(*clips, strict=True))
    groups = np.array_split(np.argsort(variance, kind="stable"), BINS)
    return Curve(
        np.array([variance[group].mean() for group in groups]),
        np.array([error[group].mean() for group in groups]),
        [float(spearmanr(clip.variance, clip.error).statistic) for clip in clips],
    )


def table(curves: dict[str, Curve]) -> str:
    """Return a line of predicted and of true standard deviations for each preset."""
    lines = []
    for name, found in curves.items():
        mean, spread = tables.mean_and_error(found.correlations)
        both = zip(np.sqrt(found.variance), np.sqrt(found.error), strict=True)
        bins = [f"{predicted:.3f} / {true:.3f}" for predicted, true in both]
        lines.append([name, str(len(found.correlations)), f"{mean:.3f} ± {spread:.3f}", *bins])
    return tables.markdown(HEADINGS, lines)


def draw(curves: dict[str, Curve], path: Path) -> None:
    """Draw true against predicted standard deviations."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 5), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    most = max(float(np.sqrt(max(c.variance.max(), c.error.max()))) for c in curves.values())
    axes.plot([0, most], [0, most], color="0.6", linestyle="--", label="calibrated")
    for name, found in curves.items():
        axes.plot(np.sqrt(found.variance), np.sqrt(found.error), marker="o", label=name)
    axes.set(xlabel="predicted standard deviation of the gain", ylabel="root mean square error")
    axes.legend()
    with atomic(path) as part:
        figure.savefig(part, format="png")


def main() -> None:
    """Denoise, print the table, and write it if asked to."""
    parser = options_of("benchmarks.calibration", __doc__)
    parser.add_argument("--presets", default="balanced,plain", metavar="NAME,NAME,...")
    parser.add_argument("--split", default="train", metavar="NAME", help="(default train)")
    parser.add_argument("--snr", default="5", metavar="DB,DB,...", help="(default 5)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="(default 2)")
    parser.add_argument(
        "--write", action="store_true", help="put the table into docs/log/quality.md"
    )
    asked = parser.parse_args()
    names = asked.presets.split(",")
    try:
        clips = files(split=asked.split, snrs=asked.snr.split(","))
        if unknown := [name for name in names if name not in PRESETS]:
            raise AlphaMFError(f"there is no preset {unknown[0]!r}")
    except AlphaMFError as error:
        parser.error(str(error))
    curves = {
        name: curve(list(pool.results(partial(cells, preset=name), clips, workers=asked.jobs)))
        for name in names
    }
    legend = (
        "1 to 10: tenths of the cells, by predicted standard deviation; its root "
        "mean square, and that of the true error."
    )
    note = caption("benchmarks.calibration", sys.argv[1:], ("alphamf", "numpy"))
    publish(
        DOCS / "log" / "quality.md",
        "calibration",
        f"{table(curves)}\n\n{legend}\n\n{note}",
        write=asked.write,
    )
    if asked.write:
        draw(curves, DOCS / "figures" / "calibration.png")


if __name__ == "__main__":
    main()
