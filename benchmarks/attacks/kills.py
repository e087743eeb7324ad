"""Stop commands at random moments and restart them: no output may be lost or incomplete.

For example::

    python -m benchmarks.attacks.kills --cycles 200 --seed 0

`denoise` on a folder of 16 clips is stopped so often, the other commands a tenth as often, by
SIGKILL (to the first process, or to all), SIGTERM (to the first) and SIGINT (to all, as a terminal
does it), in turn. A stopped run is started again, and stopped again, until it ends; then all is
removed and a new round begins. After every stop, each output must be absent or equal to that of an
undisturbed run, and the inputs as they were; after the last round, nothing else may be there. In
the folder for temporary files SIGTERM and SIGINT may leave nothing, and the next run removes what
SIGKILL left.
`serve` is stopped while it denoises what it was sent, `live` while it records. With ``--write``
the rows of these commands in docs/reliability.md are replaced.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import soundfile

from alphamf.live.monitor import RecordingPaths
from alphamf.tools import tables
from benchmarks.attacks.commands import (
    ROOT,
    SIGNALS,
    TASKS,
    Account,
    Products,
    Task,
    clips,
    leave,
    plain,
    prepare,
    start,
    stopped,
)
from benchmarks.page_server import Server
from benchmarks.report import caption, options_of, publish, rows_of, run_main

PAGE = ROOT / "docs" / "reliability.md"


def whole(task: Task, folder: Path) -> tuple[float, Products]:
    """Run a command to its end; return the seconds and its output."""
    started = time.perf_counter()
    process = start(task, folder)
    errors = process.communicate()[1].decode(errors="replace")
    if process.returncode:
        raise SystemExit(f"alphamf {task.arguments} ended with {process.returncode}: {errors}")
    return time.perf_counter() - started, task.products(folder / "out")


def cycles(task: Task, folder: Path, count: int, rng: np.random.Generator) -> Account:
    """Stop and restart a command."""
    account = Account()
    inputs, temporary = plain(folder / "input"), folder / "tmp"
    seconds, expected = whole(task, folder)
    _empty(folder / "out")
    left = 1.0
    while account.stops.total() < count:
        number = SIGNALS[account.stops.total() % len(SIGNALS)]
        before = set(temporary.iterdir())
        process = start(task, folder)
        # The start takes a third of the time; finished output takes none.
        timeout = rng.uniform(0.1, seconds * (0.3 + 0.7 * left))
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


SERVE = "serve --no-browser --jobs 1"
_PATIENCE = 30.0
"""Seconds that the processes may take to end."""


def server_cycles(folder: Path, count: int, rng: np.random.Generator) -> Account:
    """Stop a server while it denoises, and start it again in the same folder.

    After SIGTERM and SIGINT its folder for temporary files must be empty; what SIGKILL leaves there
    must go when the next one starts. Its processes must have ended each time, and a recording that
    is done must be the same whenever it is.
    """
    account = Account()
    clips(folder / "input", 1, 4)
    started = time.perf_counter()
    server, recording = _served(folder)
    server.wait(recording)
    seconds = time.perf_counter() - started
    expected = _served_result(server, recording)
    server.stop()
    while account.stops.total() < count:
        number = SIGNALS[account.stops.total() % len(SIGNALS)]
        server, recording = _served(folder)
        if len(list((folder / "tmp").iterdir())) != 1:
            account.problems.append("what the last one left is there still")
        time.sleep(rng.uniform(0, seconds))
        if server.json("GET", f"api/recordings/{recording}")["state"] == "done":
            account.rounds += 1
            if _served_result(server, recording) != expected:
                account.problems.append("another result")
        account.problems += _server_stopped(server, number)
        account.stops[number.name] += 1
        account.tracebacks += "Traceback" in server.said()
    server, recording = _served(folder)
    server.wait(recording)
    account.rounds += 1
    if _served_result(server, recording) != expected:
        account.problems.append("another result")
    server.stop()
    if list((folder / "tmp").iterdir()):
        account.problems.append("a file was left")
    return account


def _served(folder: Path) -> tuple[Server, str]:
    """Return a server and the id of a recording that it was sent."""
    server = Server(folder / "tmp", *SERVE.split()[2:])
    return server, server.send(folder / "input" / "00.wav")


def _served_result(server: Server, recording: str) -> bytes:
    return server.ask("GET", f"api/recordings/{recording}/result")[2]


def _server_stopped(server: Server, number: signal.Signals) -> list[str]:
    """Stop a server, and return the problems."""
    processes = psutil.Process(server.process.pid).children(recursive=True)
    server.process.send_signal(number)
    server.process.wait(_PATIENCE)
    _, left = psutil.wait_procs(processes, timeout=_PATIENCE)
    for process in left:
        process.kill()
    server.stop()
    problems = [f"{number.name}: {process.cmdline()} was left" for process in left]
    if number != signal.SIGKILL and os.listdir(server.folder):
        problems.append(f"{number.name}: a file was left")
    return problems


LIVE = Task(
    "live --record out/00.wav -q",
    plain,
    "from tests.support import sound_cards; sound_cards.run_alone(1000)",
)
"""Between the devices of a stand-in, which hear noise."""

HEAD = 44
"""Bytes of a WAV file's header."""

LONGEST = 2.0
"""Seconds of the recordings, at most."""


def live_cycles(folder: Path, count: int, rng: np.random.Generator) -> Account:
    """Stop it at random moments, each time with recordings of their own.

    Of the two files, before and after, all that is on the disk must be read; after SIGTERM and
    SIGINT they must be equally long.
    """
    account = Account()
    seconds = _start_of_recording(folder)
    for k in range(1, count + 1):
        number = SIGNALS[k % len(SIGNALS)]
        files = _recordings(folder, k)
        process = start(_live(k), folder)
        errors = stopped(process, rng.uniform(0.1, seconds + LONGEST), number, rng, account)
        account.tracebacks += b"Traceback" in errors
        account.rounds += process.returncode == 0
        if not leave(process):
            account.problems.append(f"stop {k} ({number.name}): processes were left behind")
        account.problems += [
            f"stop {k} ({number.name}): {sentence}"
            for sentence in _recording_problems(files, whole=number != signal.SIGKILL)
        ]
    return account


def _live(k: int) -> Task:
    return LIVE._replace(arguments=LIVE.arguments.replace("00", f"{k:02}"))


def _recordings(folder: Path, k: int) -> RecordingPaths:
    return RecordingPaths(folder / "out" / f"{k:02}.wav", folder / "out" / f"{k:02}.denoised.wav")


def _start_of_recording(folder: Path) -> float:
    """Return the seconds until sound is recorded."""
    began = time.perf_counter()
    process = start(_live(0), folder)
    file = _recordings(folder, 0).after
    while not (file.exists() and file.stat().st_size > HEAD):
        if process.poll() is not None:
            raise SystemExit(f"alphamf {LIVE.arguments} ended by itself")
        time.sleep(0.01)
    seconds = time.perf_counter() - began
    process.terminate()
    process.communicate()
    return seconds


def _recording_problems(files: RecordingPaths, *, whole: bool) -> list[str]:
    there = [file for file in files if file.exists() and file.stat().st_size]
    lengths = [soundfile.info(file).frames for file in there]
    on_disk = [(file.stat().st_size - HEAD) // 2 for file in there]
    problems = [] if lengths == on_disk else [f"{lengths} samples of {on_disk} can be read"]
    if whole and len(set(lengths)) > 1:
        problems.append(f"the recordings have {lengths} samples")
    return problems


OTHERS = {
    "serve": (SERVE, server_cycles),
    "live": (LIVE.arguments, live_cycles),
}
"""Commands that do not end by themselves: their words, and what stops them."""


def _command(name: str) -> str:
    return f"`alphamf {TASKS[name].arguments if name in TASKS else OTHERS[name][0]}`"


def _with_others(rows: dict[str, list[str]]) -> list[list[str]]:
    """Return rows of the table; commands that were not stopped keep theirs of the page."""
    rows = {command: cells for command, *cells in rows_of(PAGE, "kills")} | rows
    commands = map(_command, [*TASKS, *OTHERS])
    return [[command, *rows[command]] for command in commands if command in rows]


def main() -> None:
    """Stop all commands, and print the table."""
    parser = options_of("benchmarks.attacks.kills", __doc__)
    parser.add_argument("--cycles", type=int, default=200, help="of denoise")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=[*TASKS, *OTHERS])
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    asked = parser.parse_args()
    rng = np.random.default_rng(asked.seed)
    rows = {}
    for name in [*TASKS, *OTHERS]:
        if asked.only in (None, name):
            count = asked.cycles if name == "denoise" else max(3, asked.cycles // 10)
            with tempfile.TemporaryDirectory(prefix="kills-") as place:
                prepare(name, Path(place))
                stop = OTHERS[name][1] if name in OTHERS else partial(cycles, TASKS[name])
                account = stop(Path(place), count, rng)
            print(name, account, file=sys.stderr, flush=True)
            stops = [str(account.stops[number.name]) for number in SIGNALS]
            numbers = account.rounds, account.parts, account.tracebacks, len(account.problems)
            rows[_command(name)] = [*stops, *map(str, numbers)]
    headings = ["command", *(number.name for number in SIGNALS), "rounds"]
    headings += ["temporary files seen", "tracebacks", "problems"]
    arguments = ["--cycles", str(asked.cycles), "--seed", str(asked.seed)]
    arguments += ["--only", asked.only] if asked.only else []
    made = caption("benchmarks.attacks.kills", arguments, ("alphamf", "numpy", "soundfile"))
    text = f"{tables.markdown(headings, _with_others(rows))}\n\n{made}"
    publish(PAGE, "kills", text, write=asked.write)


if __name__ == "__main__":
    run_main(main)
