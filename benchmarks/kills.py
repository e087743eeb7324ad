"""Stop commands at random moments, and start them again: nothing may be lost, or half.

For example::

    python -m benchmarks.kills --cycles 200 --seed 0

`denoise` on a folder of 50 clips is stopped so often, `evaluate`, `train` and `experiment` a tenth
as often, by SIGKILL (to the first process, or to all), SIGTERM (to the first) and SIGINT (to all,
as a terminal does it), in turn. A stopped run is started again, and stopped again, until it ends;
then all is removed and a new round begins. After every stop, each output must be absent or equal to
that of an undisturbed run, and the inputs as they were; after the last round, nothing else may be
there. With ``--write`` the table goes to docs/reliability.md.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import soundfile

from alphamf.tools import jsonlines, tables
from benchmarks.report import caption, publish

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
TIMES = ("cpu_seconds", "real_time_factor", "peak_memory_mb", "milliseconds", "plain")
"""What differs from run to run."""

# What a shell starts in the background inherits a Ctrl-C that is ignored.
HEARD = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
COMMAND = [sys.executable, "-c", f"{HEARD}; from alphamf.cli.start import main; main()"]

Products = dict[str, Any]
"""What a command has made so far, by name; only what is equal in every run."""


class Task(NamedTuple):
    """A command in a folder that holds ``input``, and what it makes in ``out``."""

    arguments: str
    products: Callable[[Path], Products]


def clips(folder: Path, count: int, seconds: float) -> None:
    """Write clips of speech-like noise in three formats, with loud and soft syllables."""
    for k in range(count):
        rng = np.random.default_rng(k)
        time_axis = np.arange(int(8000 * seconds * (1 + k % 3))) / 8000
        sound = (1.1 + np.sin(2 * np.pi * 4 * time_axis)) * rng.standard_normal(len(time_axis))
        name = f"{k:02}.{('wav', 'flac', 'ogg')[k % 3]}"
        folder.mkdir(parents=True, exist_ok=True)
        soundfile.write(folder / name, 0.1 * sound, 8000)


def found(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files below a folder, without temporary ones."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            yield str(path.relative_to(folder)), path


def plain(folder: Path) -> Products:
    """Return all files as they are; a checkpoint is no product."""
    return {name: path.read_bytes() for name, path in found(folder) if ".checkpoint" not in name}


def measured(folder: Path) -> Products:
    """Return files that hold times without these: lines of JSON, tables, pages, sounds."""
    products: Products = {}
    for name, path in found(folder):
        if path.suffix == ".jsonl":
            for item in jsonlines.read(path):
                job = json.dumps(item.get("job") or item["key"])
                products[f"{name} {job}"] = _timeless({**item, **item.get("numbers", {})})
        elif path.suffix == ".csv":
            rows = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")))
            products[name] = [row.get("key") or row.get("method") for row in rows]
        elif path.suffix == ".flac":
            products[name] = path.read_bytes()
        else:  # a picture, a page, settings: by how they end
            products[name] = path.read_bytes()[-9:]
    return products


def _timeless(item: dict[str, Any]) -> dict[str, Any]:
    item = {name: value for name, value in item.items() if name not in (*TIMES, "numbers")}
    # Where arrays lie in memory changes the last bit of a score.
    scores = item.get("scores", {})
    return item | {"scores": {name: value and round(value, 6) for name, value in scores.items()}}


@dataclass
class Account:
    """What happened to a command."""

    stops: Counter[str] = field(default_factory=Counter)
    rounds: int = 0
    parts: int = 0
    tracebacks: int = 0
    problems: list[str] = field(default_factory=list)


def start(task: Task, folder: Path) -> subprocess.Popen[bytes]:
    """Start a command, in a session of its own."""
    return subprocess.Popen(
        [*COMMAND, *task.arguments.split()],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def leave(process: subprocess.Popen[bytes]) -> bool:
    """Wait until nothing is left of a process and those that it started; kill them after 30 s."""
    for _ in range(600):
        if not _alive(process.pid):
            return True
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    return False


def _alive(group: int) -> bool:
    """Whether a process of a group runs; one that nobody has waited for yet does not."""
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, found = place.read_text().rpartition(")")[2].split()[:3]
            if found == str(group) and state != "Z":
                return True
    return False


def whole(task: Task, folder: Path) -> tuple[float, Products]:
    """Run a command to its end; return the seconds and what it made."""
    started = time.perf_counter()
    process = start(task, folder)
    errors = process.communicate()[1].decode(errors="replace")
    if process.returncode:
        raise SystemExit(f"alphamf {task.arguments} ended with {process.returncode}: {errors}")
    return time.perf_counter() - started, task.products(folder / "out")


def cycles(task: Task, folder: Path, count: int, rng: np.random.Generator) -> Account:
    """Stop a command `count` times; see the top of this file."""
    account = Account()
    inputs = plain(folder / "input")
    seconds, expected = whole(task, folder)
    shutil.rmtree(folder / "out")
    (folder / "out").mkdir()
    left = 1.0
    while account.stops.total() < count:
        number = SIGNALS[account.stops.total() % len(SIGNALS)]
        process = start(task, folder)
        try:
            # To start takes a third of the time; what is done already takes none.
            most = seconds * (0.3 + 0.7 * left)
            errors = process.communicate(timeout=rng.uniform(0.1, most))[1]
        except subprocess.TimeoutExpired:
            every = number == signal.SIGINT or (number == signal.SIGKILL and rng.random() < 0.5)
            (os.killpg if every else os.kill)(process.pid, number)
            account.stops[number.name] += 1
            errors = process.communicate()[1]
        moment = f"stop {account.stops.total()} ({number.name})"
        account.tracebacks += b"Traceback" in errors
        if not leave(process):
            account.problems.append(f"{moment}: processes were left behind")
        made = task.products(folder / "out")
        left = 1 - len(made) / len(expected)
        account.problems += [
            f"{moment}: {name} is not whole"
            for name, product in made.items()
            if product != expected.get(name)
        ]
        if plain(folder / "input") != inputs:
            account.problems.append(f"{moment}: an input was changed")
        account.parts += len(list((folder / "out").rglob(".*.part")))
        if process.returncode == 0:
            account.rounds += 1
            account.problems += _ended(folder, made, expected, moment)
            shutil.rmtree(folder / "out")
            (folder / "out").mkdir()
            left = 1.0
    made = task.products(folder / "out")
    if made.keys() != expected.keys():  # the last stop may have come after all was done
        _, made = whole(task, folder)
    account.problems += _ended(folder, made, expected, "the last run")
    account.rounds += 1
    return account


def _ended(folder: Path, made: Products, expected: Products, moment: str) -> list[str]:
    """Return what is wrong with the folder of a run that ended."""
    missing = sorted(expected.keys() - made.keys())
    left = [path for path in folder.rglob(".*") if path.is_file()]
    left += list(folder.rglob("*.checkpoint"))
    return [f"after {moment}: {name} is not there" for name in missing] + [
        f"after {moment}: {path.name} was left" for path in left
    ]


TASKS = {
    "denoise": Task("denoise input --output-dir out --preset fast --jobs 2 -q", plain),
    "evaluate": Task(
        "evaluate --clean input/clean --noisy input/noisy --method noisy,logmmse,fast "
        "-o out --jobs 2 -q",
        measured,
    ),
    "train": Task("train input -o out/m.npz --stream --rank 10 --steps 200 -q", plain),
    "experiment": Task("experiment normal-1d --output out --jobs 2 -q", measured),
}


def prepare(name: str, folder: Path) -> None:
    """Write what a command works on."""
    (folder / "out").mkdir(parents=True)
    (folder / "input").mkdir()
    if name == "evaluate":
        clips(folder / "input" / "noisy", 6, 0.5)
        clips(folder / "input" / "clean", 6, 0.5)
    elif name != "experiment":
        clips(folder / "input", 50 if name == "denoise" else 6, 0.5)


def main() -> None:
    """Stop all commands, and print what came of it."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.kills",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--cycles", type=int, default=200, help="of denoise")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=list(TASKS))
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    asked = parser.parse_args()
    rng = np.random.default_rng(asked.seed)
    rows = []
    for name, task in TASKS.items():
        if asked.only in (None, name):
            count = asked.cycles if name == "denoise" else max(3, asked.cycles // 10)
            with tempfile.TemporaryDirectory(prefix="kills-") as place:
                prepare(name, Path(place))
                account = cycles(task, Path(place), count, rng)
            print(name, account, file=sys.stderr, flush=True)
            stops = [str(account.stops[number.name]) for number in SIGNALS]
            numbers = account.rounds, account.parts, account.tracebacks, len(account.problems)
            rows.append([f"`alphamf {task.arguments}`", *stops, *map(str, numbers)])
    headings = ["command", *(number.name for number in SIGNALS), "rounds"]
    headings += ["temporary files seen", "tracebacks", "problems"]
    arguments = ["--cycles", str(asked.cycles), "--seed", str(asked.seed)]
    made = caption("benchmarks.kills", arguments, ("alphamf", "numpy", "soundfile"))
    text = f"{tables.markdown(headings, rows)}\n\n{made}"
    publish(PAGE, "kills", text, write=asked.write)


if __name__ == "__main__":
    main()
