r"""Measure quality against processor time for a grid of settings, in one interleaved run.

For example::

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.front --rate 16000 --clips 40 -o front-16k
    OPENBLAS_NUM_THREADS=1 python -m benchmarks.front --rate 8000 --clips 40 -o front-8k \
        fast fast:steps=40 em30=fast:steps=30,keep=10

Settings are a preset, or a preset with fields of `Settings` after a colon, and a label before an
equals sign. The first is the one that the others are compared with, clip by clip. Clips are of
``benchmarks.front_clips``; each goes through all the settings before the next does, in an order
that goes round. Writes OUTPUT-clips.csv (a line per clip and settings, as they are done),
OUTPUT.csv (means, and mean differences, with standard errors) and OUTPUT.png.
"""

from __future__ import annotations

import csv
import sys
import time
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from alphamf.denoising.api import PRESETS, Settings, denoise
from alphamf.errors import AlphaMFError
from alphamf.tools import tables
from benchmarks.clip_scores import SCORES, scores
from benchmarks.front_clips import Clip, clips
from benchmarks.report import options_of

GRID = (
    "EM-60=plain:refine=True,sampler=em,warm_up=0,steps=60,keep=20",
    "EM-20=plain:refine=True,sampler=em,warm_up=0,steps=20,keep=8",
    "SGRLD-230=plain:refine=True",
    "balanced",
    "balanced, alpha 1.89=balanced:alpha_noise=1.89",
    "fast",
    "fast, alpha 1.89=fast:alpha_noise=1.89",
    "fast 10+30=fast:warm_up=10,steps=30,keep=16",
)
HEADINGS = ("clip", "settings", *SCORES, "CPU s per s")


def parsed(text: str) -> tuple[str, Settings]:
    """Return the label and the settings that a word of the command line stands for.

    Raises
    ------
    AlphaMFError
        There is no such preset, or no such field of numbers.
    """
    before, colon, after = text.partition(":")
    label, equals, preset = before.partition("=")
    preset = preset if equals else before
    if preset not in PRESETS:
        raise AlphaMFError(f"there is no preset {preset!r}: {', '.join(PRESETS)}")
    known = {field.name: type(field.default) for field in fields(Settings)}
    changes: dict[str, Any] = {}
    for change in after.split(",") if colon else ():
        name, _, value = change.partition("=")
        try:
            kind = known[name]
            changes[name] = value == "True" if kind is bool else kind(value)
        except (KeyError, ValueError, TypeError):
            raise AlphaMFError(f"{change!r} sets no field of Settings") from None
    return label if equals else text, replace(PRESETS[preset], **changes)


def measure(clip: Clip, settings: Settings) -> list[float]:
    """Return the scores of a denoised clip, and processor seconds per second of sound."""
    start = time.process_time()
    sound = denoise(clip.noisy, clip.rate, settings).audio
    spent = (time.process_time() - start) / (len(clip.noisy) / clip.rate)
    return [*scores(clip.clean, sound, clip.rate), spent]


def summary(found: dict[str, list[list[float]]]) -> tuple[list[str], list[list[str]]]:
    """Return headings and lines of means, and of mean differences from the first settings."""
    columns = (*SCORES, "CPU s per s")
    headings = ["settings", "clips"]
    for column in columns:
        headings += [column, f"error of {column}"]
    for column in SCORES:
        headings += [f"difference of {column}", f"error of difference of {column}"]
    first = np.array(next(iter(found.values())))
    lines = []
    for label, rows in found.items():
        values = np.array(rows)
        differences = (values - first)[:, : len(SCORES)]
        line = [label, str(len(rows))]
        for column in np.hstack([values, differences]).T:
            average, error = tables.mean_and_error(column[np.isfinite(column)])
            line += [f"{average:.4f}", f"{error:.4f}"]
        lines.append(line)
    return headings, lines


def plot(found: dict[str, list[list[float]]], path: Path) -> None:
    """Draw each score against processor time, a point per settings.

    The bar beside a point is the standard error of its difference from the first settings.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 6), layout="constrained")
    FigureCanvasAgg(figure)
    first = np.array(next(iter(found.values())))
    for k, (axes, score) in enumerate(zip(figure.subplots(1, len(SCORES)), SCORES, strict=True)):
        for label, rows in found.items():
            values = np.array(rows)
            cost, mean = values[:, -1].mean(), np.nanmean(values[:, k])
            change = (values - first)[:, k]
            _, error = tables.mean_and_error(change[np.isfinite(change)])
            axes.errorbar(cost, mean, yerr=error, fmt="o", capsize=3)
            axes.annotate(label, (cost, mean), (4, 4), textcoords="offset points", fontsize=6)
        axes.set(xscale="log", xlabel="CPU seconds per second of sound", ylabel=score)
        axes.grid(alpha=0.3, which="both")
    figure.savefig(path, dpi=120)


def main() -> None:
    """Run the command line."""
    parser = options_of("benchmarks.front", __doc__)
    parser.add_argument("settings", nargs="*", default=GRID, metavar="SETTINGS")
    parser.add_argument("--rate", type=int, choices=(8000, 16000), default=16000)
    parser.add_argument("--clips", type=int, default=40, metavar="N")
    parser.add_argument("-o", "--output", type=Path, default=Path("front"), metavar="OUTPUT")
    asked = parser.parse_args()
    try:
        grid = dict(parsed(text) for text in asked.settings)
        chosen = clips(asked.rate, asked.clips)
    except AlphaMFError as error:
        parser.error(str(error))
    labels = list(grid)
    found: dict[str, list[list[float]]] = {label: [] for label in labels}
    denoise(chosen[0].noisy, asked.rate, replace(grid[labels[0]], steps=2, keep=1))
    with Path(f"{asked.output}-clips.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(HEADINGS)
        for number, clip in enumerate(chosen):
            for label in np.roll(labels, number):
                row = measure(clip, grid[str(label)])
                found[str(label)].append(row)
                writer.writerow([clip.name, label, *(f"{value:.5f}" for value in row)])
            file.flush()
            print(f"\r{number + 1} of {len(chosen)} clips", end="", file=sys.stderr)
    print(file=sys.stderr)
    headings, lines = summary(found)
    with Path(f"{asked.output}.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([headings, *lines])
    print(tables.markdown(headings, lines))
    plot(found, Path(f"{asked.output}.png"))


if __name__ == "__main__":
    main()
