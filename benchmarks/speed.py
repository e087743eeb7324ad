r"""Measure processor time: beside other denoisers, on several cores, and at several sampling rates.

For example, for the tables of BENCHMARKS.md and docs/benchmarks/speed.md::

    python -m benchmarks.speed peers cores rates

All that is compared is measured in turn, in one process, so that other load affects it alike. The
sound is noise whose level varies like that of speech. All parts together take ten minutes.

peers
    The presets, and other denoisers that are installed (``pip install 'alphamf[peers]'``).
cores
    A folder of clips and one long recording, on one core and on all.
rates
    The default preset at several sampling rates.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import soundfile

from alphamf.batch.file import process
from alphamf.batch.inputs import plan
from alphamf.batch.observers import Observers
from alphamf.batch.request import Request
from alphamf.denoising.api import denoise
from alphamf.denoising.settings import PRESETS
from alphamf.errors import AlphaMFError
from alphamf.evaluation.baselines.base import Clip
from alphamf.evaluation.baselines.registry import METHODS
from alphamf.evaluation.cost import measure_cost
from alphamf.tools import pool, tables
from alphamf.tools.arrays import Floats
from alphamf.tools.blas import one_thread
from benchmarks.report import caption, options_of, run_main, write_section

REPOSITORY = Path(__file__).parents[1]
PRESET = "fast"
ROUNDS = 3
RATES = (8000, 16000, 48000)
LENGTHS = (2, 10)
"""Seconds of two clips: the time for a second is the difference of both over that of the lengths,
so that starting a process or a network for each clip does not count."""

LEFT_OUT = ("noisy", "oracle-mask", "is-nmf", "kl-nmf", "paper")
UNIT = ("rnnoise", "logmmse")
"""The first of these that is installed is the unit of the ratios."""

COLUMNS = (
    *("method", "CPU s per s, 16 kHz"),
    *(f"rnnoise = 1, {rate // 1000} kHz" for rate in RATES),
)


def synthetic_sound(seconds: float, rate: int) -> Floats:
    """Return noise with a level that varies like that of speech, shape (samples,)."""
    count = round(seconds * rate)
    envelope = np.sin(2 * np.pi * 2.0 * np.arange(count) / rate) ** 2 + 0.05
    noise = np.random.default_rng(0).standard_normal(count)
    return (0.1 * envelope * noise).astype(np.float32)


def methods() -> list[str]:
    """Return the methods that can run here: the presets after the others."""
    others = [name for name, each in METHODS.items() if each.available() is None]
    return [name for name in (*others, *PRESETS) if name not in LEFT_OUT]


def spent(method: str, rate: int) -> float:
    """Return the processor time for a second of sound in seconds; NaN where the method fails."""
    times = []
    for seconds in LENGTHS:
        sound = synthetic_sound(seconds, rate)
        with suppress(AlphaMFError):
            times.append(measure_cost(method, Clip(sound, rate, sound))[1].cpu)
    if len(times) < len(LENGTHS):
        return float("nan")
    return (times[1] - times[0]) / (LENGTHS[1] - LENGTHS[0])


def peers(rounds: int) -> str:
    """Return the table of the methods: medians of the rounds, and of ratios to the unit."""
    names = methods()
    unit = next(name for name in UNIT if name in names)
    headings = ["method"]
    cells: list[list[str]] = [[name] for name in names]
    for rate in RATES:
        found = np.array([[spent(name, rate) for name in names] for _ in range(rounds)])
        with np.errstate(all="ignore"):
            ratios = found / found[:, [names.index(unit)]]
        headings += [f"CPU s per s, {rate // 1000} kHz", f"{unit} = 1, {rate // 1000} kHz"]
        for line, time_, ratio in zip(
            cells, np.median(found, 0), np.median(ratios, 0), strict=True
        ):
            line += [f"{time_:.4f}", f"{ratio:.2f}"]
    return tables.markdown(headings, cells)


def cores(rounds: int) -> str:
    """Return the table of a folder of clips and of a long recording, on one core and on all."""
    count, lines = pool.cores(), []
    for name, lengths in (("a folder of clips", range(10, 26)), ("one recording", [280])):
        with TemporaryDirectory() as folder:
            for k, seconds in enumerate(lengths):
                sound = synthetic_sound(seconds, 16000)
                soundfile.write(Path(folder, f"{k}.wav"), sound, 16000)
            times = np.array([[elapsed(folder, k) for k in (1, count)] for _ in range(rounds)])
        one, every = times.T
        cells = [
            f"{np.median(one):.1f}",
            f"{np.median(every):.1f}",
            f"{np.median(one / every):.2f}",
        ]
        lines.append([name, f"{len(lengths)}", f"{sum(lengths)}", *cells])
    headings = ["sound", "files", "seconds", "one core s", f"{count} cores s", "times as fast"]
    return tables.markdown(headings, lines)


def elapsed(folder: str, count: int) -> float:
    """Return the seconds that a number of cores take for the recordings of a folder."""
    jobs = plan([folder], output_dir=str(Path(folder, "out")), overwrite=True).jobs
    request = Request(PRESETS[PRESET], Observers, overwrite=True, jobs=max(1, count // len(jobs)))
    started = time.perf_counter()
    list(pool.each(partial(process, request=request), jobs, workers=count))
    return time.perf_counter() - started


def rates(rounds: int) -> str:
    """Return the table of the default preset by sampling rate, as ratios to 16 kHz."""
    every = (16000, 44100, 48000, 96000)
    found = np.array([[spent(PRESET, rate) for rate in every] for _ in range(rounds)])
    ratios = np.median(found / found[:, :1], 0)
    lines = [
        [f"{rate / 1000:g}", f"{time_:.4f}", f"{ratio:.2f}"]
        for rate, time_, ratio in zip(every, np.median(found, 0), ratios, strict=True)
    ]
    return tables.markdown(["kHz", "CPU s per s", "16 kHz = 1"], lines)


PARTS: dict[str, tuple[Callable[[int], str], str]] = {
    "peers": (peers, "BENCHMARKS.md"),
    "cores": (cores, "docs/benchmarks/speed.md"),
    "rates": (rates, "docs/full-band.md"),
}
"""The parts, and the pages of their tables."""


@one_thread()
def main() -> None:
    """Make the tables that the command line names, and write them."""
    parser = options_of("benchmarks.speed", __doc__)
    parser.add_argument("parts", nargs="+", choices=PARTS, metavar="PART", help=", ".join(PARTS))
    for name in parser.parse_args().parts:
        denoise(synthetic_sound(1, 16000), 16000, PRESET)  # loads what is loaded once
        part, page = PARTS[name]
        text = f"{part(ROUNDS)}\n\n{caption('benchmarks.speed', [name], ('alphamf', 'numpy'))}"
        stem = REPOSITORY / "docs" / "benchmarks" / f"speed-{name}"
        write_section(REPOSITORY / page, f"speed:{name}", text, columns=COLUMNS, stem=stem)
        print(text)


if __name__ == "__main__":
    run_main(main)
