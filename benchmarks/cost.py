r"""Measure the time, memory and size of commands and of other denoisers.

For example, for the tables of docs/benchmarks/::

    python -m benchmarks.cost peers
    python -m benchmarks.cost length --rate 8000 --minutes 1,60 --channels 1,2,8

All that is compared is measured in turn, so that other load affects it alike. The sound is noise
whose level varies like that of speech.
"""

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from alphamf.audio.writer import open_writer
from alphamf.denoising.api import denoise
from alphamf.errors import AlphaMFError
from alphamf.evaluation.baselines.base import Clip
from alphamf.evaluation.baselines.registry import METHODS
from alphamf.evaluation.measure import measure_cost
from alphamf.tools import pool
from alphamf.tools.arrays import Floats, Reals
from alphamf.tools.machine import one_thread
from benchmarks.report import run_main
from benchmarks.scored import publish

ROUNDS = 3
RATES = (8000, 16000, 48000)
# Rates in Hz and channels of ``rates``; the first is the unit of the ratios
KINDS = ((16000, 1), (44100, 1), (48000, 1), (48000, 2), (96000, 1))

LENGTHS = (2, 10)
"""Seconds of two clips: the difference of their times, divided by that of their lengths, is the
time per second, so that starting a process or a network for each clip does not count."""

OWN = ("low", "fast", "plain")
LEFT_OUT = ("noisy", "oracle-mask", "is-nmf", "kl-nmf")
UNIT = "rnnoise"

COMMAND = ["-c", "from alphamf.cli.start import main; main()"]
DENOISE = [*COMMAND, "denoise", "in", "--output-dir", "out", "--preset", "fast", "-q"]
STARTS = {
    "python -c 'import numpy'": ["-c", "import numpy"],
    "alphamf --help": [*COMMAND, "--help"],
    "alphamf denoise": [*DENOISE, "--overwrite"],
}


Lines = list[list[str]]


def envelope(count: int, rate: int) -> Reals:
    """Return a level that varies like that of speech, with a period of a quarter of a second."""
    return 0.1 * (np.sin(2 * np.pi * 2.0 * np.arange(count) / rate) ** 2 + 0.05)


def synthetic_sound(seconds: float, rate: int) -> Floats:
    """Return noise with the level of speech, shape (samples,)."""
    count = round(seconds * rate)
    noise = np.random.default_rng(0).standard_normal(count)
    return (envelope(count, rate) * noise).astype(np.float32)


def methods() -> list[str]:
    """Return the methods that can run here, without `LEFT_OUT`: alphamf's after the others."""
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


def peers() -> None:
    """Compare `fast`, `plain`, low latency and other denoisers that are installed."""
    names = methods()
    lines = [["method"], *([name] for name in names)]
    for rate in RATES:
        found = np.array([[spent(name, rate) for name in names] for _ in range(ROUNDS)])
        ratios = np.median(found / found[:, [names.index(UNIT)]], 0)
        columns = (np.median(found, 0), ratios)
        lines[0] += [f"CPU s per s, {rate // 1000} kHz", f"{UNIT} = 1, {rate // 1000} kHz"]
        for line, seconds, ratio in zip(lines[1:], *columns, strict=True):
            line += [f"{seconds:.4f}", f"{ratio:.2f}"]
    publish("speed-peers.csv", lines)


def cores() -> None:
    """Denoise a folder of clips and one long recording, on one core and on all."""
    count = pool.cores()
    lines = [["sound", "files", "seconds", "one core s", f"{count} cores s", "times as fast"]]
    for name, lengths in (("a folder of clips", range(10, 26)), ("one recording", [280])):
        with TemporaryDirectory() as place:
            for k, seconds in enumerate(lengths):
                write(Path(place, "in", f"{k}.wav"), seconds, 1, 16000)
            commands = [[*DENOISE, "--overwrite", "--jobs", f"{jobs}"] for jobs in (1, count)]
            turns = [[run(each, Path(place)) for each in commands] for _ in range(ROUNDS)]
        one, every = np.median(turns, axis=0)[:, 1]
        sizes = [f"{len(lengths)}", f"{sum(lengths)}"]
        lines.append([name, *sizes, f"{one:.1f}", f"{every:.1f}", f"{one / every:.2f}"])
    publish("speed-cores.csv", lines)


def rates() -> None:
    """Measure the default preset at several sampling rates, mono and in linked stereo."""
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
    headings = ["method", "CPU s per s", "16 kHz mono = 1", "s for three minutes"]
    publish("speed-rates.csv", [headings, *lines])


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


def gpu() -> Lines:
    """Measure the elapsed time on the CPU with one job, and on a GPU with one and eight jobs."""
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


class Use(NamedTuple):
    """Processor time and elapsed time of a process in seconds, and its peak memory in MB."""

    cpu: float
    elapsed: float
    megabytes: float


def run(arguments: list[str], folder: Path) -> Use:
    """Run Python in a folder, with its cache of compiled files; return what the process used."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    started = time.perf_counter()
    command = [sys.executable, *arguments]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, env=kept)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed")
    cpu = usage.ru_utime + usage.ru_stime
    return Use(cpu, time.perf_counter() - started, usage.ru_maxrss / 1e3)


def write(path: Path, seconds: float, channels: int, rate: int, *, same: bool = False) -> None:
    """Write noise with the level of speech; with `same`, most of it is the same in all channels."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(channels)
    level = envelope(rate, rate)[:, None]
    with open_writer(path, rate, channels) as writer:
        for start in range(0, round(seconds * rate), rate):
            count = min(rate, round(seconds * rate) - start)
            sound = rng.standard_normal((rate, channels), dtype=np.float32)
            if same:
                sound = 0.1 * sound + rng.standard_normal((rate, 1), dtype=np.float32)
            writer.write((level * sound).astype(np.float32)[:count])


def start(*, rounds: int = 15) -> Lines:
    """Measure ``alphamf denoise`` for a second of sound, ``--help``, and ``import numpy``."""
    with TemporaryDirectory() as place:
        write(Path(place, "in/a.wav"), 1, 1, 16000)
        # The first round compiles, and reads from the disk.
        turns = [[run(each, Path(place)) for each in STARTS.values()] for _ in range(rounds + 1)]
    medians = np.median(turns[1:], axis=0)
    rows = zip(STARTS, medians, strict=True)
    return [
        ["command", "CPU s", "elapsed s"],
        *([k, f"{v[0]:.3f}", f"{v[1]:.3f}"] for k, v in rows),
    ]


def length(
    *, minutes: str = "1,10", channels: str = "1,2,8", rate: int = 16000, same: bool = False
) -> Lines:
    """Measure time and memory by length and number of channels, on one core.

    With ``--same`` the channels have a sound in common, and are linked.
    """
    lengths = [float(each) for each in minutes.split(",")]
    counts = [int(each) for each in channels.split(",")]
    lines = [["minutes", "channels", "CPU s per s", "MB"]]
    runs = [(each, counts[0]) for each in lengths] + [(lengths[0], count) for count in counts]
    for each, count in dict.fromkeys(runs):
        with TemporaryDirectory() as place:
            write(Path(place, "in/a.wav"), 60 * each, count, rate, same=same)
            found = run([*DENOISE, "--overwrite", "--jobs", "1"], Path(place))
        cells = [f"{found.cpu / (60 * each):.4f}", f"{found.megabytes:.0f}"]
        lines.append([f"{each:g}", f"{count}", *cells])
    return lines


PARTS = {each.__name__: each for each in (peers, cores, rates, gpu, start, length)}

if __name__ == "__main__":
    with one_thread():
        denoise(synthetic_sound(1, 16000), 16000)  # loads what is loaded once
        run_main(PARTS)
