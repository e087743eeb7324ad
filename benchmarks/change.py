"""Denoise speech in a stationary noise that gives way to another one in mid-recording.

``python -m benchmarks.change`` writes the SI-SDR of every second, means over several pairs of
noises, to docs/benchmarks/noise-change.csv, and draws docs/figures/noise-change.png.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from alphamf.scores.score import si_sdr
from alphamf.tools.arrays import Floats
from benchmarks.clips import Clip, manifest, mixed, mono
from benchmarks.methods import run
from benchmarks.report import options_of, run_main
from benchmarks.scored import publish

FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "noise-change.png"
SECONDS, CHANGE = 12, 6
RATE = 16000
PAIRS = (("stationary", "nonstationary"), ("stationary", "stationary"))


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
        noise = mono(known[rng.integers(len(known))], RATE)
        piece = clean[k * CHANGE * RATE : (k + 1) * CHANGE * RATE]
        parts.append(mixed(piece, noise, RATE, 5 if k else 15, rng))
    return Clip(f"change-{number}", RATE, clean, np.concatenate(parts))


def change(count: int) -> None:
    """Write and draw SI-SDR second by second around a change of the noise."""
    names = ["noisy", "logmmse", "rnnoise", "low", "fast"]
    found = {name: np.empty((count, SECONDS)) for name in names}
    for number in range(count):
        clip = changing(number)
        for name in names:
            out = run(name, clip)
            for second in range(SECONDS):
                part = slice(second * RATE, (second + 1) * RATE)
                found[name][number, second] = si_sdr(clip.clean[part], out[part])
    means = {name: np.nanmean(np.maximum(values, -20), axis=0) for name, values in found.items()}
    rows = [[f"{s}", *(f"{means[name][s]:.2f}" for name in names)] for s in range(SECONDS)]
    publish("noise-change.csv", [["second", *names], *rows])
    _plot(means, FIGURE, count)


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
    parser = options_of("benchmarks.change", __doc__)
    parser.add_argument("--clips", type=int, default=4, metavar="N", help="(default 4)")
    change(parser.parse_args().clips)


if __name__ == "__main__":
    run_main(main)
