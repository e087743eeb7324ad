r"""What a higher rate costs: time and memory, tables of ``docs/full-band.md``.

*Time*: the same ten seconds (mixtures of `benchmarks.full_band_mixtures`, split ``dev``) at several
rates in turn, by processor time; its ratio to 16 kHz is the median over the rounds. *Memory*: of
`alphamf denoise` in one process on noise at 48 kHz in stereo, as in `benchmarks.growth`, in
channels that are linked. For example (three hours of sound take half an hour)::

    python -m benchmarks.full_band_cost --rounds 5 --minutes 1,180 --write
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from alphamf import denoise
from alphamf.audio.resample import resample
from alphamf.tools import tables
from alphamf.tools.arrays import Floats
from alphamf.tools.blas import one_thread
from benchmarks import growth
from benchmarks.full_band_mixtures import RATE, mixtures
from benchmarks.report import caption, options_of, publish

PAGE = Path(__file__).parents[1] / "docs" / "full-band.md"
SECONDS = 10
RATES = (16000, 44100, 48000, 96000)
"""In Hz; the first is what the others are compared with."""

PRESETS = ("fast", "balanced")


def sound() -> Floats:
    """Return ten seconds at 48 kHz, shape (samples,)."""
    return np.concatenate([each.noisy for each in mixtures("dev", 3)])[: SECONDS * RATE]


def spent(audio: Floats, rate: int, preset: str) -> float:
    """Return the seconds of processor time that denoising takes."""
    started = time.process_time()
    denoise(audio, rate, preset)
    return time.process_time() - started


@one_thread()
def times(rounds: int) -> str:
    """Return the table of processor time by rate and preset."""
    whole = sound()
    sounds = [resample(whole, RATE, rate) for rate in RATES]
    lines = []
    for preset in PRESETS:
        for each, rate in zip(sounds, RATES, strict=True):  # loads what is loaded once
            spent(each[: 2 * rate], rate, preset)
        found = np.array(
            [
                [spent(each, rate, preset) for each, rate in zip(sounds, RATES, strict=True)]
                for _ in range(rounds)
            ]
        )
        ratios = found / found[:, :1]
        for k, rate in enumerate(RATES):
            _, error = tables.mean_and_error(ratios[:, k])
            cells = [f"{np.median(found[:, k]) / SECONDS:.4f}", f"{np.median(ratios[:, k]):.2f}"]
            lines.append([preset, f"{rate / 1000:g}", *cells, f"{error:.2f}"])
    headings = ["preset", "kHz", "CPU s per s", "16 kHz = 1", "error of the mean ratio"]
    return tables.markdown(headings, lines)


def memory(minutes: list[float], preset: str) -> str:
    """Return the table of the largest memory by length of a stereo recording."""
    lines = []
    for length in minutes:
        with tempfile.TemporaryDirectory(prefix="full-band-") as name:
            growth.write(Path(name, "in.wav"), 60 * length, 2, RATE, same=True)
            cpu, megabytes = growth.run(Path(name), preset)
        lines.append([f"{length:g}", f"{cpu / (60 * length):.4f}", f"{megabytes:.0f}"])
    return tables.markdown(["minutes of stereo", "CPU s per s", "MB"], lines)


def main() -> None:
    """Measure, and print or write the tables."""
    parser = options_of("benchmarks.full_band_cost", __doc__)
    parser.add_argument("--rounds", type=int, default=5, help="0: no times")
    parser.add_argument(
        "--minutes", default="", help="lengths with commas between; none: no memory"
    )
    parser.add_argument("--write", action="store_true", help="into docs/full-band.md")
    asked = parser.parse_args()
    made = caption("benchmarks.full_band_cost", sys.argv[1:], ("alphamf", "numpy"))
    if asked.rounds:
        text = f"{times(asked.rounds)}\n\n{made}"
        publish(PAGE, "full-band:time", text, write=asked.write)
    if asked.minutes:
        lengths = [float(part) for part in asked.minutes.split(",")]
        text = f"{memory(lengths, 'fast')}\n\n{made}"
        publish(PAGE, "full-band:memory", text, write=asked.write)


if __name__ == "__main__":
    main()
