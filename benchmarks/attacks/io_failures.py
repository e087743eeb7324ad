"""Fail each call to the system in turn: no output may be lost or incomplete, and errors are shown.

For example::

    python -m benchmarks.attacks.io_failures --only denoise,train

Opening, listing, reading, seeking, writing, truncating, syncing, locking, linking, renaming and
deleting of files in the command's folder are counted, and the start of processes (`io_failures.c`,
loaded before the C library, so that it sees libsndfile's calls too). A command runs once to count
them; then once for each of them, which fails, alone or with all after it (``--for-good``). After
every run each output must be absent or equal to that of an undisturbed run, the inputs as they
were, nothing else there but known temporary files, and no process left; what went wrong must stand
in a sentence on standard error, without a traceback, with exit code 1 or 2; and the same command
must then end well, which is tried once for each state in which the files were left. Linux only.
"""

import ctypes
import hashlib
import mmap
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from benchmarks.attacks.commands import (
    FEW,
    Products,
    Task,
    leave,
    measured,
    mixed,
    plain,
    prepare,
    start,
    trained,
)
from benchmarks.report import run_main, show

SOURCE = Path(__file__).with_suffix(".c")


class State(ctypes.Structure):
    """Memory shared with ``io_failures.c``, as its ``struct state``."""

    _fields_ = [
        ("calls", ctypes.c_long),
        ("first", ctypes.c_long),
        ("last", ctypes.c_long),
        ("what", ctypes.c_char * 256),
    ]


class End(NamedTuple):
    """How a run ended: exit code (None if it hung), error messages, whether a process is left."""

    code: int | None
    errors: str
    left: bool


@dataclass
class Account:
    """Counts of a command's runs."""

    calls: int = 0  # Number of calls of the undisturbed run
    # Runs in which a call failed, by its kind.
    failed: Counter[str] = field(default_factory=Counter)
    tolerated: int = 0  # Number of these runs that ended well nevertheless
    parts: int = 0  # Number of known temporary files that were left
    problems: list[str] = field(default_factory=list)  # One sentence per problem


def run(task: Task, folder: Path, state: State, first: int, last: int) -> End:
    """Run a command whose calls from number `first` to `last` fail."""
    light = (
        f"from benchmarks.attacks.commands import lighten; lighten({task.arguments.split()[0]!r})"
    )
    state.calls, state.first, state.last, state.what = 0, first, last, b""
    process = start(task._replace(before=light), folder)
    try:
        errors, code = process.communicate(timeout=60)[1], process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        errors, code = process.communicate()[1], None
    return End(code, errors.decode(errors="replace"), not leave(process))


def each_call(
    task: Task, folder: Path, state: State, calls: Iterator[int], for_good: bool
) -> Account:
    """Fail one of the given calls in each run of a command, or with `for_good` all from it on."""
    account = Account()
    inputs = plain(folder / "input")
    run(task, folder, state, 1, 0)  # what is cached, is so in all
    _empty(folder)
    ended_well = {_lying(folder)}
    undisturbed = run(task, folder, state, 1, 0)
    if undisturbed.code:
        raise SystemExit(f"alphamf {task.arguments}: {undisturbed.errors}")
    expected = task.products(folder / "out")
    account.calls = state.calls
    for call in calls:
        if call > account.calls:
            break
        _empty(folder)
        end = run(task, folder, state, call, sys.maxsize if for_good else call)
        if not state.what:
            continue
        what = state.what.decode(errors="replace")
        account.failed[what.split()[0]] += 1
        account.tolerated += end.code == 0
        kept = _kept(folder, what, for_good)
        account.parts += len(list((folder / "out").rglob(".*.part"))) + len(kept)
        found = list(_problems(task, folder, end, expected, kept))
        if plain(folder / "input") != inputs:
            found.append("an input was changed")
        # Where syncing the folder failed after the renaming, the output is there already.
        complete = task.products(folder / "out") == expected
        if end.code and not complete and not _fewer(task, folder, end):
            found += _again(task, folder, state, expected, ended_well)
        for sentence in found:
            account.problems.append(f"call {call} ({what}): {sentence}")
            print(f"alphamf {task.arguments.split()[0]}, {account.problems[-1]}", flush=True)
    return account


def _again(
    task: Task, folder: Path, state: State, expected: Products, ended_well: set[str]
) -> list[str]:
    """Run the command on what a failed one left, unless it has ended well on the same files."""
    lying = _lying(folder)
    if lying in ended_well:
        return []
    again = run(task, folder, state, 1, 0)
    if again.code or task.products(folder / "out") != expected:
        return [f"the same command then fails: {again.errors.strip()}"]
    ended_well.add(lying)
    return []


def _lying(folder: Path) -> str:
    """Return a digest of all files of a command; complete results count without their times."""
    digest = hashlib.sha256()
    for path in sorted(path for name in ("out", "tmp") for path in (folder / name).rglob("*")):
        content = path.read_bytes() if path.is_file() else b""
        if path.suffix == ".jsonl" and content.endswith(b"\n"):
            content = repr(measured(path.parent)).encode()
        digest.update(f"{path} {len(content)} ".encode() + content)
    return digest.hexdigest()


def _kept(folder: Path, what: str, for_good: bool) -> set[str]:
    """Return the names of temporary files that are left because deleting them failed."""
    place = what.partition(" ")[2]
    deleting = what.startswith("unlink ") or (folder / place.lstrip("/")).is_dir()
    return {
        path.name
        for path in (folder / "tmp").iterdir()
        if for_good or (deleting and f"{place}/".startswith(f"/tmp/{path.name}/"))
    }


def _problems(
    task: Task, folder: Path, end: End, expected: Products, kept: set[str]
) -> Iterator[str]:
    """Yield what is wrong after a run in which a call failed; `kept` files may remain."""
    if end.code is None:
        yield "it hung"
    elif end.code not in (0, 1, 2):
        yield f"exit code {end.code}"
    if end.left:
        yield "a process was left"
    if "Traceback" in end.errors:
        yield f"a traceback: {end.errors.strip().splitlines()[-1]}"
    elif end.code and "Error: " not in end.errors:
        yield f"no sentence with exit code {end.code}: {end.errors.strip()!r}"
    made = {} if _fewer(task, folder, end) else task.products(folder / "out")
    yield from (
        f"{name} is not whole"
        for name, product in made.items()
        if product != expected.get(name)
        and not (end.code and isinstance(product, dict) and product.get("error"))
    )
    if end.code == 0:
        yield from (f"{name} is not there" for name in expected if name not in made)
    left = [path.name for path in folder.iterdir() if path.name not in ("input", "out", "tmp")]
    others = (path.name for path in (folder / "tmp").iterdir() if path.name not in kept)
    left += [name for name in others if not name.startswith("torchinductor_")]  # PyTorch's own
    yield from (f"{name} was left" for name in left)


def _fewer(task: Task, folder: Path, end: End) -> bool:
    """Return whether a model or corpus was made with an error that names an unreadable input."""
    named = "Error: input" in end.errors
    made = task.products in (trained, mixed) and task.products(folder / "out")
    return end.code == 2 and named and bool(made)


def _empty(folder: Path) -> None:
    for name in ("out", "tmp"):
        shutil.rmtree(folder / name, ignore_errors=True)
        (folder / name).mkdir()


def attempt(name: str, calls: Iterator[int], *, for_good: bool = False) -> Account:
    """Compile the C file, make the inputs of a command, fail its calls, and return counts."""
    with tempfile.TemporaryDirectory(prefix="io-failures-") as place:
        top = Path(os.path.realpath(place))
        library, shared, folder = top / "io_failures.so", top / "state", top / "work"
        command = ["cc", "-O1", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"]
        subprocess.run(command, check=True)
        prepare(name, folder, few=True)
        shared.write_bytes(bytes(ctypes.sizeof(State)))
        os.environ |= {
            "LD_PRELOAD": str(library),
            "IO_FAILURES_STATE": str(shared),
            "IO_FAILURES_FOLDER": str(folder),
            "PYTHONSAFEPATH": "1",  # or Python looks for modules in the folder
            **dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1"),
        }
        try:
            with shared.open("r+b") as file:
                memory = mmap.mmap(file.fileno(), ctypes.sizeof(State))
            return each_call(FEW[name], folder, State.from_buffer(memory), calls, for_good)
        finally:
            del os.environ["LD_PRELOAD"]


def row(name: str, for_good: bool, account: Account) -> list[str]:
    """Return the row of a command in the table: which command, what fails, and the counts."""
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(account.failed.items()))
    runs = account.failed.total()
    counts = account.calls, runs, account.tolerated, account.parts, len(account.problems)
    which = "all after it, too" if for_good else "one"
    return [f"`alphamf {FEW[name].arguments}`", which, *map(str, counts), kinds]


def main(
    *, only: str = ",".join(FEW), first: int = 1, every: int = 1, for_good: bool = False
) -> None:
    """Fail calls of some commands (default: all calls of all), and print the table."""
    headings = ["command", "what fails", "calls", "runs", "ended well", "parts", "problems"]
    lines = [[*headings, "runs by the kind of call"]]
    problems = 0
    for name in only.split(","):
        calls = iter(range(first, sys.maxsize, every))
        account = attempt(name, calls, for_good=for_good)
        lines.append(row(name, for_good, account))
        problems += len(account.problems)
    show(lines)
    raise SystemExit(bool(problems))


if __name__ == "__main__":
    run_main(main)
