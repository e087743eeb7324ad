"""Commands for attacks that stop them or fail their calls: inputs, processes and outputs."""

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import soundfile

from alphamf.audio.writer import open_writer
from alphamf.tools import jsonlines
from benchmarks.report import ROOT
from tests.support import claps, tones

# Numbers that differ from run to run
TIMES = ("cpu_seconds", "real_time_factor", "peak_memory_mb", "milliseconds", "plain")

Products = dict[str, Any]  # Output of a command so far, by name, as far as it is equal in every run


class Task(NamedTuple):
    """A command in a folder with ``input``."""

    arguments: str  # Its words, without ``alphamf``
    products: Callable[[Path], Products]  # Reads its output in ``out``
    before: str = "pass"  # Python code that its process runs first


def clips(folder: Path, count: int, seconds: float) -> None:
    """Write clips of modulated noise in three formats."""
    for k in range(count):
        rng = np.random.default_rng(k)
        time_axis = np.arange(int(8000 * seconds * (1 + k % 3))) / 8000
        sound = (1.1 + np.sin(2 * np.pi * 4 * time_axis)) * rng.standard_normal(len(time_axis))
        name = f"{k:02}.{('wav', 'flac', 'ogg')[k % 3]}"
        folder.mkdir(parents=True, exist_ok=True)
        soundfile.write(folder / name, 0.1 * sound, 8000)


def media(folder: Path, count: int) -> None:
    """Write `count` media files, in turn M4A, Matroska audio and a Matroska video."""
    rng = np.random.default_rng(0)
    for k in range(count):
        if k % 3 == 2:
            claps.make(folder / f"{k}.mkv", "matroska", claps.Sound("aac"), chapters=True)
            continue
        name, form, subtype = (("m4a", "M4A", "AAC"), ("mka", "MATROSKA", "FLAC_16"))[k % 3]
        with open_writer(folder / f"{k}.{name}", 16000, 1, format=form, subtype=subtype) as file:
            file.write(0.1 * rng.standard_normal((12000, 1), np.float32))


def recordings(folder: Path) -> None:
    """Write two voices and two noises to learn from, below ``speech`` and ``noise``."""
    for kind, sounds in (("speech", tones.VOICES), ("noise", tones.SOUNDS)):
        (folder / kind).mkdir(parents=True)
        for file, sound in zip(("0.wav", "1.flac"), sounds, strict=False):
            soundfile.write(folder / kind / file, sound, tones.RATE)


def trained(folder: Path) -> Products:
    """Return the arrays of all .npz archives as bytes, however they are packed."""
    products: Products = {}
    for path in folder.glob("*.npz"):
        with np.load(path) as model:
            products[path.name] = {name: model[name].tobytes() for name in model.files}
    return products


def unpacked(folder: Path) -> Products:
    """Return the content of all files but checkpoints; of .npz archives, their arrays."""
    return plain(folder) | trained(folder)


def found(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield relative name and path of the files below a folder, without temporary ones."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            yield str(path.relative_to(folder)), path


def plain(folder: Path) -> Products:
    """Return the content of all files but checkpoints."""
    return {name: path.read_bytes() for name, path in found(folder) if ".checkpoint" not in name}


def measured(folder: Path) -> Products:
    """Return the content of all files without times: lines of JSON, tables, pages, sounds."""
    products: Products = {}
    for name, path in found(folder):
        if path.suffix == ".jsonl":
            for item in jsonlines.read(path):
                job = json.dumps(item.get("job") or _result(item))
                products[f"{name} {job}"] = _timeless({**item, **item.get("numbers", {})})
        elif path.suffix == ".csv":
            rows = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")))
            products[name] = [_result(row) for row in rows]
        elif path.suffix == ".flac":
            products[name] = path.read_bytes()
        else:  # a picture, a page, settings: their last bytes, without the times
            products[name] = re.sub(rb"[\d.]+", b"0", path.read_bytes()[-9:])
    return products


def mixed(folder: Path) -> Products:
    """Return the content of all files, of the table of pairs row by row.

    A row that only names two files stands for a pair which a run has not finished.
    """
    products = plain(folder)
    rows = products.pop("pairs.csv", b"").decode().splitlines()
    return products | {f"row {row}": True for row in rows if row.count(",") > 1}


def _result(row: dict[str, Any]) -> list[Any]:
    """Return method and noisy file of a result; its key differs if a file cannot be read."""
    return [row.get("method"), row.get("noisy")]


def _timeless(item: dict[str, Any]) -> dict[str, Any]:
    item = {name: value for name, value in item.items() if name not in (*TIMES, "numbers")}
    # The memory addresses of arrays affect the last bit of a score.
    scores = item.get("scores", {})
    return item | {"scores": {name: value and round(value, 6) for name, value in scores.items()}}


QUICK = "--preset fast --steps 5 -q"
TASKS = {
    "denoise": Task(f"denoise input --output-dir out {QUICK} --jobs 2", plain),
    "media": Task(f"denoise input --output-dir out {QUICK} --jobs 1 --normalize -20", plain),
    "more": Task(
        f"denoise input/00.wav -o out/x.wav --noise-output out/n.wav --uncertainty out/u.npz "
        f"--vad out/v.csv --plot out/p.png --trim-silence --normalize -20 --overwrite {QUICK}",
        unpacked,
    ),
    "mix": Task("mix input/clean --noise input/noise -o out --snr 0,5 --overwrite -q", mixed),
    "evaluate": Task(
        "evaluate --clean input/clean --noisy input/noisy --method noisy,logmmse -o out "
        "--jobs 2 -q",
        measured,
    ),
    "train": Task("train input -o out/m.npz --rank 2 --steps 20 -q", trained),
    "adapt": Task(
        "adapt --clean input/speech --noise input/noise -o out/m.npz --rate 8000 "
        "--minutes 0.001 --seed 1 --jobs 2 -q",
        trained,
        "from benchmarks.attacks.commands import lighten; lighten('adapt', 10)",
    ),
    "experiment": Task("experiment normal-1d --output out --jobs 2 -q", measured),
}
# A live run between simulated devices, whose input is noise for a second
LIVE = Task(
    "live --record out/00.wav -q",
    plain,
    "from tests.support import sound_cards; sound_cards.run_alone(1)",
)

# Commands with little work, all in one process but for `jobs`
FEW = {
    name: TASKS[name]._replace(arguments=TASKS[name].arguments.replace("--jobs 2", "--jobs 1"))
    for name in ("denoise", "more", "mix", "evaluate", "train", "adapt")
} | {"jobs": TASKS["denoise"]}


def prepare(name: str, folder: Path, *, few: bool = False) -> None:
    """Write the inputs of a command, or those of one of `FEW`."""
    for place in ("out", "tmp", "input"):
        (folder / place).mkdir(parents=True)
    source = folder / "input"
    count, seconds = (2, 0.3) if few else (6, 0.5)
    if name in ("evaluate", "mix"):
        clips(source / "clean", count, seconds)
        clips(source / ("noisy" if name == "evaluate" else "noise"), count, seconds)
    elif name == "media":
        media(source, 9)
    elif name == "adapt":
        recordings(source)
    elif name not in ("experiment", "live"):
        clips(source, 16 if name == "denoise" and not few else count, seconds)


# Background processes of a shell inherit an ignored SIGINT.
INTERRUPTIBLE = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
QUIET = "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL)"
START = "from alphamf.cli.start import main; main()"

# Threads that spin while they wait triple the time of `adapt` on a machine with other work
BUSY = {"OMP_WAIT_POLICY": "PASSIVE"}


def start(
    task: Task, folder: Path, before: tuple[str, ...] = (), temporary: Path | None = None
) -> subprocess.Popen[bytes]:
    """Start a command in its own session; `before`: words of a program that runs it."""
    code = f"{QUIET}; {task.before}; {INTERRUPTIBLE}; {START}"
    place = str(temporary or folder / "tmp")
    return subprocess.Popen(
        [*before, sys.executable, "-c", code, *task.arguments.split()],
        env={**os.environ, **BUSY, "PYTHONPATH": str(ROOT), "TMPDIR": place},
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def leave(process: subprocess.Popen[bytes]) -> bool:
    """Wait for a process group to end, kill it after 30 s; return whether it ended by itself."""
    for _ in range(600):
        if not alive(process.pid):
            return True
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    return False


def alive(group: int) -> bool:
    """Return whether a process of a group runs; zombies do not count."""
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, found = place.read_text().rpartition(")")[2].split()[:3]
            if found == str(group) and state != "Z":
                return True
    return False


def lighten(command: str, size: int = 2) -> None:
    """Make this process skip work that has no calls which could fail.

    Charts, which take three quarters of the time of `evaluate` and `adapt`, are not drawn; `adapt`
    makes few mixtures and steps, according to `size`.
    """
    if command in ("evaluate", "adapt"):
        from matplotlib.figure import Figure

        Figure.savefig = _nothing_drawn  # type: ignore[method-assign]
    if command == "adapt":
        from alphamf.training.refiner import adapt

        adapt.DEV_CLIPS = adapt.LEAST_STEPS = size
        adapt.TIMED = 2
        adapt._configuration = _small(adapt._configuration)


def _nothing_drawn(figure: object, target: Any, **_: object) -> None:
    target.write(
        '<svg viewBox="0 0 1 1"></svg>' if isinstance(target, io.TextIOBase) else b"a picture"
    )


def _small(whole: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function like `whole`, for configurations of mixtures of 1 s, one per step."""

    def configuration(wish: Any) -> Any:
        made = whole(wish)
        mixtures = replace(made.mixtures, seconds=1.0)
        return replace(made, mixtures=mixtures, schedule=replace(made.schedule, batch=1))

    return configuration
