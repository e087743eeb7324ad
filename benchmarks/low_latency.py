r"""Measure the quality of a stream at low latency beside methods that hear no more, and `fast`.

For example::

    python -m benchmarks.low_latency quality --rate 16000 --clips 40 -o low-16k
    python -m benchmarks.low_latency quality --rate 8000 --clips 40 -o low-8k
    python -m benchmarks.low_latency quality low fast --rate 44100 --of 8000 -o calls
    python -m benchmarks.low_latency change -o docs/figures/noise-change

``quality`` goes through clips of ``benchmarks.front_clips``, writes OUTPUT.csv, a line per clip and
method, and prints means with standard errors. With ``--of 8000`` or, above 16 kHz, ``--of 16000``
the clips of that rate are taken to ``--rate`` and what comes out back, so that the scores
compare. ``change`` denoises speech in a stationary noise that
gives way to another one in mid-recording, and writes the SI-SDR of every second as OUTPUT.csv and
OUTPUT.png, means over several pairs.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Collection
from pathlib import Path

import numpy as np

from alphamf import Stream
from alphamf.audio.resample import resample
from alphamf.errors import AlphaMFError
from alphamf.evaluation.baselines.base import Clip as Noisy
from alphamf.evaluation.methods import all_methods
from alphamf.evaluation.mixing import mixture
from alphamf.scores.score import si_sdr
from alphamf.tools import tables
from alphamf.tools.arrays import Floats
from benchmarks.clip_scores import SCORES, scores
from benchmarks.front_clips import Clip, clips, manifest, mono
from benchmarks.report import options_of, run_main

PEERS = ("noisy", "logmmse", "rnnoise")
CHAIN = "chain"
SECONDS, CHANGE = 12, 6
RATE = 16000
PAIRS = (("stationary", "nonstationary"), ("stationary", "stationary"))


def method_names(text: str, others: Collection[str] = ()) -> list[str]:
    """Return the methods that a text names, with commas between.

    Raises
    ------
    AlphaMFError
        One is neither a method of `alphamf evaluate` nor one of `others`.
    """
    names = text.split(",")
    if unknown := [name for name in names if name not in (*all_methods(), *others)]:
        raise AlphaMFError(f"there is no method {unknown[0]!r}")
    return names


def run(name: str, clip: Clip) -> Floats:
    """Denoise a clip by a method of `alphamf evaluate`, or at low latency by the chain alone."""
    if name == CHAIN:
        stream = Stream(clip.rate, 1, "plain", latency="low")
        return np.concatenate([stream.process(clip.noisy), stream.flush()[:, 0]])
    return all_methods()[name].run(Noisy(clip.noisy, clip.rate, clip.clean))


def at_rate(rate: int, name: str, clip: Clip) -> Floats:
    """Denoise a clip, taken to another rate for that; the result is at the clip's own."""
    clean, noisy = (resample(each, clip.rate, rate) for each in (clip.clean, clip.noisy))
    found = resample(run(name, Clip(clip.name, rate, clean, noisy)), rate, clip.rate)
    return found[: len(clip.clean)]


def quality(rate: int, own: int, count: int, names: list[str], output: Path) -> None:
    """Print the table of scores, and write those of each clip."""
    found: dict[str, list[list[float]]] = {name: [] for name in names}
    with output.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["clip", "method", *SCORES])
        for number, clip in enumerate(clips(own, count)):
            for name in names:
                row = scores(clip.clean, at_rate(rate, name, clip), clip.rate)
                found[name].append(row)
                writer.writerow([clip.name, name, *(f"{value:.4f}" for value in row)])
            file.flush()
            print(f"\r{number + 1} of {count} clips", end="", file=sys.stderr)
    print(file=sys.stderr)
    lines = []
    for name, rows in found.items():
        columns = [np.array(column) for column in zip(*rows, strict=True)]
        means = [tables.mean_and_error(column[np.isfinite(column)]) for column in columns]
        lines.append(
            [
                name,
                *(tables.format_mean(m, e, d) for (m, e), d in zip(means, (2, 3, 3), strict=True)),
            ]
        )
    print(tables.markdown(["method", *SCORES], lines))


def changing(number: int) -> Clip:
    """Return speech in a noise that gives way to another at `CHANGE` seconds, both at 5 dB."""
    rng = np.random.default_rng((5, number))
    voices = manifest("speech-16k")
    order = rng.permutation(len(voices))
    clean = np.concatenate([mono(voices[k][0], RATE) for k in order[:12]])[: SECONDS * RATE]
    kinds = PAIRS[number % len(PAIRS)]
    parts = []
    for k, kind in enumerate(kinds):
        known = [path for path, each, _ in manifest("noise-48k") if each == kind]
        noise = mixture.noise(mono(known[rng.integers(len(known))], RATE), RATE)
        piece = clean[k * CHANGE * RATE : (k + 1) * CHANGE * RATE]
        power = mixture.power(piece, RATE, "plain")
        parts.append(mixture.mix(piece, power, noise, 5 if k else 15, rng)[0])
    return Clip(f"change-{number}", RATE, clean, np.concatenate(parts))


def change(count: int, output: Path) -> None:
    """Write SI-SDR second by second around a change of the noise."""
    names = ["noisy", "logmmse", "rnnoise", "low", "fast"]
    found = {name: np.empty((count, SECONDS)) for name in names}
    for number in range(count):
        clip = changing(number)
        for name in names:
            out = run(name, clip)
            for second in range(SECONDS):
                part = slice(second * RATE, (second + 1) * RATE)
                found[name][number, second] = si_sdr(clip.clean[part], out[part])
    headings = ["second", *names]
    means = {name: np.nanmean(np.maximum(values, -20), axis=0) for name, values in found.items()}
    lines = [[f"{s}", *(f"{means[name][s]:.2f}" for name in names)] for s in range(SECONDS)]
    with output.with_suffix(".csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([headings, *lines])
    print(tables.markdown(headings, lines))
    _plot(means, output.with_suffix(".png"), count)


def _plot(means: dict[str, Floats], path: Path, count: int) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for name, values in means.items():
        axes.plot(np.arange(SECONDS) + 0.5, values, marker="o", label=name)
    axes.axvline(CHANGE, color="black", linestyle=":")
    axes.set(xlabel="seconds", ylabel="SI-SDR dB", title=f"mean of {count} changes of the noise")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=110)


def main() -> None:
    """Run the command line."""
    parser = options_of("benchmarks.low_latency", __doc__)
    parser.add_argument("what", choices=("quality", "change"))
    parser.add_argument("methods", nargs="*", default=[*PEERS, CHAIN, "low", "fast"])
    parser.add_argument("--rate", type=int, default=RATE)
    parser.add_argument("--of", type=int, choices=(8000, RATE), help="(default: up to --rate)")
    parser.add_argument("--clips", type=int, default=40)
    parser.add_argument("-o", "--output", type=Path, default=Path("low"))
    asked = parser.parse_args()
    if asked.what == "quality":
        own = asked.of or (RATE if asked.rate >= RATE else 8000)
        quality(asked.rate, own, asked.clips, asked.methods, asked.output)
    else:
        change(asked.clips, asked.output)


if __name__ == "__main__":
    run_main(main)
