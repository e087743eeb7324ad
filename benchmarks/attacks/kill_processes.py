"""Processes of commands that `benchmarks.attacks.kills` stops."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from benchmarks.attacks.kill_tasks import Account, Task

ROOT = Path(__file__).parents[2]

# Background processes of a shell inherit an ignored SIGINT.
INTERRUPTIBLE = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
QUIET = "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL)"
START = "from alphamf.cli.start import main; main()"

BUSY = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Threads that spin while they wait triple the time of `adapt` on a machine with other work."""


def start(task: Task, folder: Path) -> subprocess.Popen[bytes]:
    """Start a command, in a session of its own."""
    code = f"{QUIET}; {task.before}; {INTERRUPTIBLE}; {START}"
    return subprocess.Popen(
        [sys.executable, "-c", code, *task.arguments.split()],
        env={**os.environ, **BUSY, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder / "tmp")},
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def leave(process: subprocess.Popen[bytes]) -> bool:
    """Wait for a process and its children to end; kill them after 30 s."""
    for _ in range(600):
        if not alive(process.pid):
            return True
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    return False


def alive(group: int) -> bool:
    """Whether a process of a group runs; a zombie does not."""
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, found = place.read_text().rpartition(")")[2].split()[:3]
            if found == str(group) and state != "Z":
                return True
    return False


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
        (os.killpg if every else os.kill)(process.pid, number)
        account.stops[number.name] += 1
        return process.communicate()[1]
