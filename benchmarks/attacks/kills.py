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
`serve` is stopped while it denoises what it was sent (`kill_server`), `live` while it
records (`kill_live`). With
``--write`` the rows of these commands in docs/reliability.md are replaced.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

from alphamf.tools import tables
from benchmarks import kill_live, kill_server
from benchmarks.attacks.kill_processes import leave, start, stopped
from benchmarks.attacks.kill_tasks import SIGNALS, TASKS, Account, Products, Task, plain, prepare
from benchmarks.report import caption, options_of, publish, run_main

ROOT = Path(__file__).parents[2]
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
    """Stop and restart a command.

    Parameters
    ----------
    task
        The command.
    folder
        Holds its input.
    count
        Number of stops.
    rng
        Draws the moments.
    """
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


OTHERS = {
    "serve": (kill_server.ARGUMENTS, kill_server.cycles),
    "live": (kill_live.TASK.arguments, kill_live.cycles),
}
"""Commands that do not end by themselves: their words, and what stops them."""


def _command(name: str) -> str:
    return f"`alphamf {TASKS[name].arguments if name in TASKS else OTHERS[name][0]}`"


def _with_others(rows: dict[str, list[str]]) -> list[list[str]]:
    """Return rows of the table; commands that were not stopped keep theirs of the page."""
    page = PAGE.read_text(encoding="utf-8").partition("<!-- kills -->")[2]
    for line in page.partition("<!-- /kills -->")[0].splitlines():
        if line.startswith("| `"):
            command, *cells = line[2:-2].split(" | ")
            rows.setdefault(command, cells)
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
