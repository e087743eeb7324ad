"""Stop commands at random moments and restart them: no output may be lost or incomplete.

For example::

    python -m benchmarks.attacks.kills --cycles 200 --seed 0

`denoise` on a folder of 16 clips is stopped ``--cycles`` times, other commands a tenth as often, by
SIGKILL (to the first process, or to all), SIGTERM (to the first) and SIGINT (to all, as a terminal
does it), in turn. A stopped run is started again, and stopped again, until it ends; then all is
removed and a new round begins. After every stop, each output must be absent or equal to that of an
undisturbed run, and the inputs as they were; after the last round, nothing else may be there. In
the folder for temporary files SIGTERM and SIGINT may leave nothing, and the next run removes what
SIGKILL left. TMPDIR chooses the disk.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import numpy as np

from benchmarks.attacks.commands import TASKS, Products, Task, leave, plain, prepare, start
from benchmarks.report import run_main

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


@dataclass
class Account:
    """Counts of a command's runs."""

    stops: Counter[str] = field(default_factory=Counter)  # Number of stops by signal
    rounds: int = 0  # Number of runs that ended
    parts: int = 0  # Number of temporary files that were seen
    tracebacks: int = 0  # Number of runs that printed a traceback
    problems: list[str] = field(default_factory=list)  # One sentence per problem


def whole(task: Task, folder: Path) -> tuple[float, Products]:
    """Run a command to its end; return the seconds and its output."""
    started = time.perf_counter()
    process = start(task, folder)
    errors = process.communicate()[1].decode(errors="replace")
    if process.returncode:
        raise SystemExit(f"alphamf {task.arguments} ended with {process.returncode}: {errors}")
    return time.perf_counter() - started, task.products(folder / "out")


def stop(task: Task, folder: Path, count: int, rng: np.random.Generator) -> Account:
    """Stop a command `count` times and restart it; return the counts and problems."""
    account = Account()
    inputs, temporary = plain(folder / "input"), folder / "tmp"
    seconds, expected = whole(task, folder)
    _empty(folder / "out")
    left = 1.0
    while account.stops.total() < count:
        number = SIGNALS[account.stops.total() % len(SIGNALS)]
        before = set(temporary.iterdir())
        process = start(task, folder)
        if rng.random() < 0.2:  # The start takes a third of the time; finished output takes none.
            timeout = rng.uniform(0.1, seconds * (0.3 + 0.7 * left))
        else:
            wait_for_output(process, folder / "out")
            timeout = rng.uniform(0, seconds * left / 4)
        errors = stopped(process, timeout, number, rng, account)
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
        if number != signal.SIGKILL and not before.issuperset(temporary.iterdir()):
            account.problems.append(f"{moment}: temporary files were left")
        account.parts += len(list((folder / "out").rglob(".*.part")))
        if process.returncode == 0:
            account.rounds += 1
            account.problems += _ended(folder, made, expected, moment)
            _empty(folder / "out")
            left = 1.0
    made = task.products(folder / "out")
    if made.keys() != expected.keys():  # the last stop may have come after the end
        _, made = whole(task, folder)
    account.problems += _ended(folder, made, expected, "the last run")
    account.rounds += 1
    return account


def wait_for_output(process: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait until a process has begun to write into a folder, or has ended."""
    before = set(folder.rglob("*"))
    while process.poll() is None and before.issuperset(folder.rglob("*")):
        time.sleep(0.002)


def _empty(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def _ended(folder: Path, made: Products, expected: Products, moment: str) -> list[str]:
    """Return the problems with the folder of a run that ended."""
    missing = sorted(expected.keys() - made.keys())
    left = [path for path in folder.rglob(".*") if path.is_file()]
    left += [*folder.rglob("*.checkpoint"), *(folder / "tmp").glob("alphamf*")]
    return [f"after {moment}: {name} is not there" for name in missing] + [
        f"after {moment}: {path.name} was left" for path in left
    ]


def stopped(
    process: subprocess.Popen[bytes],
    timeout: float,
    number: signal.Signals,
    rng: np.random.Generator,
    account: Account,
) -> bytes:
    """Stop a process by a signal unless it ends before; return what it printed."""
    try:
        return process.communicate(timeout=timeout)[1]
    except subprocess.TimeoutExpired:
        every = number == signal.SIGINT or (number == signal.SIGKILL and rng.random() < 0.5)
        with suppress(ProcessLookupError):  # it has just ended
            (os.killpg if every else os.kill)(process.pid, number)
            account.stops[number.name] += 1
        return process.communicate()[1]


def main(*, cycles: int = 200, seed: int = 0, only: Annotated[str, TASKS] = "") -> list[list[str]]:
    """Stop all commands, or `only` one, and return the table."""
    rng = np.random.default_rng(seed)
    headings = ["command", *(number.name for number in SIGNALS), "rounds"]
    lines = [[*headings, "temporary files seen", "tracebacks", "problems"]]
    for name in [only] if only else TASKS:
        count = cycles if name == "denoise" else max(3, cycles // 10)
        with tempfile.TemporaryDirectory(prefix="kills-") as place:
            prepare(name, Path(place))
            account = stop(TASKS[name], Path(place), count, rng)
        print(name, account, file=sys.stderr, flush=True)
        stops = [account.stops[number.name] for number in SIGNALS]
        numbers = account.rounds, account.parts, account.tracebacks, len(account.problems)
        lines.append([f"`alphamf {TASKS[name].arguments}`", *map(str, [*stops, *numbers])])
    return lines


if __name__ == "__main__":
    run_main(main)
