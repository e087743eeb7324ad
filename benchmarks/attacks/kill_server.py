"""Stop `alphamf serve` at random moments: it leaves no process, and no recording for good."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
import psutil

from benchmarks.attacks.kill_tasks import SIGNALS, Account, clips
from benchmarks.page_server import Server

ARGUMENTS = "serve --no-browser --jobs 1"
PATIENCE = 30.0
"""Seconds that the processes may take to end."""


def cycles(folder: Path, count: int, rng: np.random.Generator) -> Account:
    """Stop a server while it denoises, and start it again in the same folder.

    After SIGTERM and SIGINT its folder for temporary files must be empty; what SIGKILL leaves there
    must go when the next one starts. Its processes must have ended each time, and a recording that
    is done must be the same whenever it is.

    Parameters
    ----------
    folder
        Empty.
    count
        Number of stops.
    rng
        Draws the moments.
    """
    account = Account()
    clips(folder / "input", 1, 4)
    started = time.perf_counter()
    server, recording = _start(folder)
    server.wait(recording)
    seconds = time.perf_counter() - started
    expected = _result(server, recording)
    server.stop()
    while account.stops.total() < count:
        number = SIGNALS[account.stops.total() % len(SIGNALS)]
        server, recording = _start(folder)
        if len(list((folder / "tmp").iterdir())) != 1:
            account.problems.append("what the last one left is there still")
        time.sleep(rng.uniform(0, seconds))
        if server.json("GET", f"api/recordings/{recording}")["state"] == "done":
            account.rounds += 1
            if _result(server, recording) != expected:
                account.problems.append("another result")
        account.problems += _stopped(server, number)
        account.stops[number.name] += 1
        account.tracebacks += "Traceback" in server.said()
    server, recording = _start(folder)
    server.wait(recording)
    account.rounds += 1
    if _result(server, recording) != expected:
        account.problems.append("another result")
    server.stop()
    if list((folder / "tmp").iterdir()):
        account.problems.append("a file was left")
    return account


def _start(folder: Path) -> tuple[Server, str]:
    """Return a server and the id of a recording that it was sent."""
    server = Server(folder / "tmp", *ARGUMENTS.split()[2:])
    return server, server.send(folder / "input" / "00.wav")


def _result(server: Server, recording: str) -> bytes:
    return server.ask("GET", f"api/recordings/{recording}/result")[2]


def _stopped(server: Server, number: signal.Signals) -> list[str]:
    """Stop a server, and return the problems."""
    processes = psutil.Process(server.process.pid).children(recursive=True)
    server.process.send_signal(number)
    server.process.wait(PATIENCE)
    _, left = psutil.wait_procs(processes, timeout=PATIENCE)
    for process in left:
        process.kill()
    server.stop()
    problems = [f"{number.name}: {process.cmdline()} was left" for process in left]
    if number != signal.SIGKILL and os.listdir(server.folder):
        problems.append(f"{number.name}: a file was left")
    return problems
