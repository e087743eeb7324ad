r"""Measure processor time: beside other denoisers, on several cores, and by sampling rate.

For example, for the tables of docs/benchmarks/speed-*.csv::

    python -m benchmarks.speed peers cores rates

All that is compared is measured in turn, in one process, so that other load affects it alike. The
sound is noise whose level varies like that of speech.

peers
    `fast`, `plain`, low latency, and other denoisers that are installed (extra ``peers``).
cores
    A folder of clips and one long recording, on one core and on all.
rates
    The default preset at several sampling rates, mono and in linked stereo.
gpu
    ``--device cuda`` beside the CPU, in elapsed time; it needs a CUDA device.
"""

from __future__ import annotations

import time
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
from alphamf.denoising.stream_options import StreamOptions
from alphamf.errors import AlphaMFError
from alphamf.evaluation.baselines.base import Clip
from alphamf.evaluation.baselines.registry import METHODS
from alphamf.evaluation.measure import measure_cost
from alphamf.tools import pool
from alphamf.tools.arrays import Floats
from alphamf.tools.machine import one_thread
from benchmarks.report import options_of, run_main
from benchmarks.scored import publish

ROUNDS = 3
RATES = (8000, 16000, 48000)
KINDS = ((16000, 1), (44100, 1), (48000, 1), (48000, 2), (96000, 1))
"""Rates in Hz and channels of ``rates``; the first is the unit of the ratios."""

LENGTHS = (2, 10)
"""Seconds of two clips: the time for a second is the difference of both over that of the lengths,
so that starting a process or a network for each clip does not count."""

OWN = ("low", "fast", "plain")
LEFT_OUT = ("noisy", "oracle-mask", "is-nmf", "kl-nmf")
UNIT = "rnnoise"


def synthetic_sound(seconds: float, rate: int) -> Floats:
    """Return noise with a level that varies like that of speech, shape (samples,)."""
    count = round(seconds * rate)
    envelope = np.sin(2 * np.pi * 2.0 * np.arange(count) / rate) ** 2 + 0.05
    noise = np.random.default_rng(0).standard_normal(count)
    return (0.1 * envelope * noise).astype(np.float32)


def methods() -> list[str]:
    """Return the methods that can run here: alphamf's after the others."""
    others = [name for name, each in METHODS.items() if each.available() is None]
    return [*(name for name in others if name not in LEFT_OUT), *OWN]


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


def peers() -> list[list[str]]:
    """Return the table of the methods: medians of the rounds, and of ratios to the unit."""
    names = methods()
    lines = [["method"], *([name] for name in names)]
    for rate in RATES:
        found = np.array([[spent(name, rate) for name in names] for _ in range(ROUNDS)])
        ratios = np.median(found / found[:, [names.index(UNIT)]], 0)
        columns = (np.median(found, 0), ratios)
        lines[0] += [f"CPU s per s, {rate // 1000} kHz", f"{UNIT} = 1, {rate // 1000} kHz"]
        for line, seconds, ratio in zip(lines[1:], *columns, strict=True):
            line += [f"{seconds:.4f}", f"{ratio:.2f}"]
    return lines


def cores() -> list[list[str]]:
    """Return the table of a folder of clips and of a long recording, on one core and on all."""
    count = pool.cores()
    lines = [["sound", "files", "seconds", "one core s", f"{count} cores s", "times as fast"]]
    for name, lengths in (("a folder of clips", range(10, 26)), ("one recording", [280])):
        with TemporaryDirectory() as folder:
            for k, seconds in enumerate(lengths):
                soundfile.write(Path(folder, f"{k}.wav"), synthetic_sound(seconds, 16000), 16000)
            times = np.array([[elapsed(folder, k) for k in (1, count)] for _ in range(ROUNDS)])
        one, every = np.median(times, axis=0)
        sizes = [f"{len(lengths)}", f"{sum(lengths)}"]
        lines.append([name, *sizes, f"{one:.1f}", f"{every:.1f}", f"{one / every:.2f}"])
    return lines


def elapsed(folder: str, count: int) -> float:
    """Return the seconds that a number of cores take for the recordings of a folder."""
    jobs = plan([folder], output_dir=str(Path(folder, "out")), overwrite=True).jobs
    options = StreamOptions(PRESETS["fast"], jobs=max(1, count // len(jobs)))
    request = Request(options, Observers, overwrite=True)
    started = time.perf_counter()
    list(pool.each(partial(process, request=request), jobs, workers=count))
    return time.perf_counter() - started


def rates() -> list[list[str]]:
    """Return the table of the default preset by sampling rate and channels."""
    found = np.array([[of_kind(*kind) for kind in KINDS] for _ in range(ROUNDS)])
    medians = zip(KINDS, np.median(found, 0), np.median(found / found[:, :1], 0), strict=True)
    lines = [
        [
            f"{rate / 1000:g} kHz {'mono' if channels == 1 else 'stereo'}",
            f"{seconds:.4f}",
            f"{ratio:.2f}",
            f"{180 * seconds:.0f}",
        ]
        for (rate, channels), seconds, ratio in medians
    ]
    return [["method", "CPU s per s", "16 kHz mono = 1", "s for three minutes"], *lines]


def of_kind(rate: int, channels: int) -> float:
    """Return the processor time of the default preset for a second of sound, in seconds."""
    times = []
    for seconds in LENGTHS:
        sound = np.repeat(synthetic_sound(seconds, rate)[:, None], channels, axis=1)
        own = np.random.default_rng(1).standard_normal(sound.shape, dtype=np.float32)
        sound += 0.01 * own * (channels > 1)
        started = time.process_time()
        denoise(sound, rate)
        times.append(time.process_time() - started)
    return (times[1] - times[0]) / (LENGTHS[1] - LENGTHS[0])


def gpu() -> list[list[str]]:
    """Return the table of presets by device and by segments that are denoised together."""
    lines = [["preset", "device", "jobs", "s of sound", "s elapsed", "times as fast as sound"]]
    for name, seconds in (("fast", 120), ("plain", 20)):
        sound = synthetic_sound(seconds, 16000)
        for device, jobs in (("cpu", 1), ("cuda", 1), ("cuda", 8)):
            denoise(sound[: 48000 * jobs], 16000, name, device=device, jobs=jobs)  # loads it all
            began = time.perf_counter()
            denoise(sound, 16000, name, device=device, jobs=jobs)
            spent = time.perf_counter() - began
            cells = [f"{seconds}", f"{spent:.1f}", f"{seconds / spent:.0f}"]
            lines.append([name, device, f"{jobs}", *cells])
    return lines


PARTS = {"peers": peers, "cores": cores, "rates": rates, "gpu": gpu}


@one_thread()
def main() -> None:
    """Make the tables that the command line names."""
    parser = options_of("benchmarks.speed", __doc__)
    parser.add_argument("parts", nargs="+", choices=PARTS, metavar="PART", help=", ".join(PARTS))
    for name in parser.parse_args().parts:
        denoise(synthetic_sound(1, 16000), 16000)  # loads what is loaded once
        publish(f"speed-{name}.csv", PARTS[name]())


if __name__ == "__main__":
    run_main(main)
