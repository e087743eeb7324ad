r"""Measure time, memory and size: beside other denoisers, of commands, and of an environment.

For example, for the tables of docs/benchmarks/::

    python -m benchmarks.cost peers cores rates
    python -m benchmarks.cost length --rate 8000 --minutes 1,60 --channels 1,2,8

All that is compared is measured in turn, so that other load affects it alike. The sound is noise
whose level varies like that of speech.

peers
    `fast`, `plain`, low latency, and other denoisers that are installed (extra ``peers``).
cores
    A folder of clips and one long recording, on one core and on all.
rates
    The default preset at several sampling rates, mono and in linked stereo.
gpu
    ``--device cuda`` beside the CPU, in elapsed time; it needs a CUDA device.
start
    A command for a second of sound, and the help, beside ``import numpy``: medians of rounds.
length
    Time and memory by length and number of channels, on one core; with ``--same`` the channels
    share a sound, and are linked.
syncs
    A batch of short files as it is, and with calls that wait for the disk left out.
files
    Files denoised together: the memory that all processes of the run hold together (PSS, in which
    shared pages count once), sampled every 50 ms.
size
    The files of an environment, those that Python compiled included, package by package.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from importlib.metadata import Distribution, distributions
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Annotated, NamedTuple

import numpy as np

from alphamf.audio.writer import open_writer
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
from alphamf.tools import pool, tables
from alphamf.tools.arrays import Floats, Reals
from alphamf.tools.machine import one_thread
from benchmarks.report import caption, run_main
from benchmarks.scored import publish

ROUNDS = 3
RATES = (8000, 16000, 48000)
# Rates in Hz and channels of ``rates``; the first is the unit of the ratios
KINDS = ((16000, 1), (44100, 1), (48000, 1), (48000, 2), (96000, 1))

LENGTHS = (2, 10)
"""Seconds of two clips: the time for a second is the difference of both over that of the lengths,
so that starting a process or a network for each clip does not count."""

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

LEAST = 5.0  # Megabytes of the smallest package that has a line of its own

Lines = list[list[str]]


def envelope(count: int, rate: int) -> Reals:
    """Return a level that varies like that of speech, with a period of half a second."""
    found: Reals = 0.1 * (np.sin(2 * np.pi * 2.0 * np.arange(count) / rate) ** 2 + 0.05)
    return found


def synthetic_sound(seconds: float, rate: int) -> Floats:
    """Return noise with the level of speech, shape (samples,)."""
    count = round(seconds * rate)
    noise = np.random.default_rng(0).standard_normal(count)
    return (envelope(count, rate) * noise).astype(np.float32)


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


def peers() -> Lines:
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


def cores(folder: Path) -> Lines:
    """Return the table of a folder of clips and of a long recording, on one core and on all."""
    count = pool.cores()
    lines = [["sound", "files", "seconds", "one core s", f"{count} cores s", "times as fast"]]
    for name, lengths in (("a folder of clips", range(10, 26)), ("one recording", [280])):
        here = folder / name.replace(" ", "-")
        for k, seconds in enumerate(lengths):
            write(here / f"{k}.wav", seconds, 1, 16000)
        times = np.array([[elapsed(here, k) for k in (1, count)] for _ in range(ROUNDS)])
        one, every = np.median(times, axis=0)
        sizes = [f"{len(lengths)}", f"{sum(lengths)}"]
        lines.append([name, *sizes, f"{one:.1f}", f"{every:.1f}", f"{one / every:.2f}"])
    return lines


def elapsed(folder: Path, count: int) -> float:
    """Return the seconds that a number of cores take for the recordings of a folder."""
    jobs = plan([str(folder)], output_dir=f"{folder}-out", overwrite=True).jobs
    options = StreamOptions(PRESETS["fast"], jobs=max(1, count // len(jobs)))
    request = Request(options, Observers, overwrite=True)
    started = time.perf_counter()
    list(pool.each(partial(process, request=request), jobs, workers=count))
    return time.perf_counter() - started


def rates() -> Lines:
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


def gpu() -> Lines:
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


class Use(NamedTuple):
    """Processor time and elapsed time of a process in seconds, and its most memory in MB."""

    cpu: float
    elapsed: float
    megabytes: float


def run(arguments: list[str], folder: Path) -> Use:
    """Run Python in a folder, in an environment in which it keeps what it compiles."""
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
    """Write noise with the level of speech; with `same` its channels hold one, and their own."""
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


def start(folder: Path, rounds: int) -> Lines:
    """Return the table of what commands take before and beside their work."""
    write(folder / "in/a.wav", 1, 1, 16000)
    for arguments in STARTS.values():  # compiled, and read from the disk
        run(arguments, folder)
    found = [{k: run(v, folder) for k, v in STARTS.items()} for _ in range(rounds)]
    lines = [
        [case, *(f"{median(each[case][k] for each in found):.3f}" for k in (0, 1))]
        for case in STARTS
    ]
    return [["command", "CPU s", "elapsed s"], *lines]


def syncs(folder: Path, rounds: int) -> Lines:
    """Return the table of a batch with and without waiting for the disk."""
    for k in range(50):
        write(folder / f"in/{k}.wav", 0.5, 1, 16000)
    words = [*DENOISE[2:], "--overwrite", "--jobs", "1"]
    ways = {
        "with": "import os",
        "without": "import os; os.fsync = os.fdatasync = lambda file: None",
    }
    starts = {name: ["-c", f"{way}; {COMMAND[1]}", *words] for name, way in ways.items()}
    found = [{k: run(v, folder) for k, v in starts.items()} for _ in range(rounds + 1)][1:]
    lines = [["50 files of half a second", "CPU s", "elapsed s", "elapsed, without = 1"]]
    for name in ways:
        cpu, elapsed = (median(each[name][k] for each in found) for k in (0, 1))
        ratio = median(each[name].elapsed / each["without"].elapsed for each in found)
        lines.append([f"{name} waiting", f"{cpu:.2f}", f"{elapsed:.2f}", f"{ratio:.3f}"])
    return lines


def length(
    folder: Path, minutes: list[float], channels: list[int], rate: int, *, same: bool
) -> Lines:
    """Return the table of time and memory by length and by number of channels."""
    lines = []
    for each, count in dict.fromkeys(
        [(each, channels[0]) for each in minutes] + [(minutes[0], count) for count in channels]
    ):
        write(folder / "in/a.wav", 60 * each, count, rate, same=same)
        found = run([*DENOISE, "--overwrite", "--jobs", "1"], folder)
        cells = [f"{found.cpu / (60 * each):.4f}", f"{found.megabytes:.0f}"]
        lines.append([f"{each:g}", f"{count}", *cells])
    return [["minutes", "channels", "CPU s per s", "MB"], *lines]


def held(session: int) -> float:
    """Return the memory of the processes of a session in MB."""
    total = 0
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):
            if place.joinpath("stat").read_text().rpartition(")")[2].split()[3] == str(session):
                found = place.joinpath("smaps_rollup").read_text().splitlines()
                total += sum(int(line.split()[1]) for line in found if line.startswith("Pss:"))
    return total / 1e3


def watched(folder: Path, options: list[str]) -> Iterator[tuple[float, float]]:
    """Denoise the files of a folder; yield seconds and MB as they are, every 50 ms."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *DENOISE, *options], cwd=folder, start_new_session=True
    )
    while process.poll() is None:
        yield time.perf_counter() - started, held(process.pid)
        time.sleep(0.05)
    if process.returncode:
        raise SystemExit(f"it ended with {process.returncode}")


def files(folder: Path, jobs: list[int], count: int) -> Lines:
    """Return the table of files that are denoised together, and of one that is long."""
    runs = [*((count, 12, each) for each in jobs), *((1, seconds, 1) for seconds in (12, 120, 600))]
    lines = []
    for number, (count, seconds, workers) in enumerate(runs):
        here = folder / f"{number}"
        for k in range(count):
            write(here / f"in/{k}.wav", seconds, 1, 16000)
        found = list(watched(here, ["--jobs", str(workers)]))
        most = max(megabytes for _, megabytes in found)
        cells = [f"{most:.0f}", f"{most / min(workers, count):.0f}", f"{found[-1][0]:.1f}"]
        lines.append([f"{count}", f"{seconds}", f"{workers}", *cells])
    headings = ["files", "seconds each", "--jobs", "most MB", "MB per job", "took s"]
    return [headings, *lines]


def megabytes(package: Distribution) -> float:
    """Return the size of the files of a package, those that Python compiled included."""
    paths = (Path(str(package.locate_file(file))) for file in package.files or [])
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


def size(environment: Path) -> Lines:
    """Return the table of the packages of an environment."""
    (site,) = environment.glob("lib/python*/site-packages")
    sizes = {each.name: megabytes(each) for each in distributions(path=[str(site)])}
    large = sorted((name for name in sizes if sizes[name] >= LEAST), key=lambda name: -sizes[name])
    small = [each for each in sizes.values() if each < LEAST]
    rows = [(name, sizes[name]) for name in large]
    rows += [(f"{len(small)} others", sum(small)), ("**all**", sum(sizes.values()))]
    return [["package", "MB"], *([name, f"{each:.1f}"] for name, each in rows)]


PARTS = ("peers", "cores", "rates", "gpu", "start", "syncs", "length", "files", "size")


@one_thread()
def main(
    parts: Annotated[list[str], PARTS],
    *,
    rounds: int = 15,
    minutes: str = "1,10",
    channels: str = "1,2,8",
    rate: int = 16000,
    same: bool = False,
    jobs: str = "1,2,8,24",
    count: int = 24,
    environment: Path = Path(".venv"),
) -> None:
    """Print the tables that the command line names; the first four go to docs/benchmarks/, too."""
    denoise(synthetic_sound(1, 16000), 16000)  # loads what is loaded once
    with TemporaryDirectory(prefix="cost-") as name:
        folder = Path(name)
        makers: dict[str, Callable[[], Lines]] = {
            "peers": peers,
            "cores": lambda: cores(folder / "cores"),
            "rates": rates,
            "gpu": gpu,
            "start": lambda: start(folder / "start", rounds),
            "syncs": lambda: syncs(folder / "syncs", rounds),
            "length": lambda: length(
                folder / "length",
                [float(each) for each in minutes.split(",")],
                [int(each) for each in channels.split(",")],
                rate,
                same=same,
            ),
            "files": lambda: files(
                folder / "files", [int(each) for each in jobs.split(",")], count
            ),
            "size": lambda: size(environment),
        }
        for part in parts:
            lines = makers[part]()
            if part in PARTS[:4]:
                publish(f"speed-{part}.csv", lines)
            else:
                print(f"{tables.markdown(lines[0], lines[1:])}\n\n{caption()}")


if __name__ == "__main__":
    run_main(main)
