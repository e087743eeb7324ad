"""A day of a small public server in an hour: honest and hostile guests, kills, a disk that fills.

For example::

    python -m benchmarks.attacks.server_day --minutes 60

`alphamf serve --public` has a small disk and 40 guests, each with an address of his own. Every
other one is honest: he sends a minute of sound about every two minutes and waits for the result.
Who is turned away comes again as late as the answer says, and waits so much longer. The others send
hostile requests and files, of which some cost much to read. Now and then a process of the server is
killed, or the disk is filled for ten seconds. Printed are the longest
wait of an honest guest against the time that his recording takes alone on the same machine, how
many were turned away or failed, what is left on the disk, and the memory of all processes. The exit
code is 1 where a guest waits longer than ten times his own work, a result differs, anything is
left, or memory exceeds 1 GB or grows.
Root only: the disk is a tmpfs.
"""

import copy
import json
import random
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil
import soundfile

from alphamf.tools import tables
from benchmarks.attacks.hostile_requests import ATTACKS, digest, request
from benchmarks.page_server import Server, running
from benchmarks.report import SAMPLE, run_main

GUESTS = 40
# MB of the disk, of which the server leaves 200 free, and most of the memory
DISK, MEMORY = 600, 1000

SECONDS = 60  # Length of an honest recording
PAUSE = 120  # Seconds between a result and the next recording of a guest, on average
LEVEL = 1.1  # By how much memory may be more in the last quarter of a day than in the second


@dataclass
class Day:
    """What happened to the guests and to the server."""

    alone: float = 0.0  # Seconds that an honest recording takes by itself
    waits: list[float] = field(default_factory=list)  # Seconds from the first try to the result
    turned_away: int = 0  # Uploads that the server refused with a time to come again
    failed: list[str] = field(default_factory=list)  # Sentences of recordings that failed
    hostile: int = 0  # Requests
    kills: int = 0
    asked: int = 0  # How often /health was asked
    answered: int = 0
    memory: list[tuple[float, float]] = field(default_factory=list)  # MB of the server and of all
    problems: list[str] = field(default_factory=list)  # Sentences

    def quarters(self) -> list[float]:
        """Return the median of the memory of all processes in each quarter of the day, in MB."""
        every = [each for _, each in self.memory]
        size = max(1, len(every) // 4)
        return [
            median(every[k * size : (k + 1) * size]) for k in range(len(every[: 4 * size]) // size)
        ]


def honest(
    server: Server, until: float, day: Day, *, rng: random.Random, sound: bytes, expected: str
) -> None:
    """Send a recording now and then, and wait for each result."""
    while (begun := time.monotonic() + rng.expovariate(1 / PAUSE)) < until:
        time.sleep(begun - time.monotonic())
        while (asked := server.ask("POST", "api/recordings?preset=fast", sound))[0] != 201:
            day.turned_away += 1
            if asked[0] not in (429, 503, 507):
                day.problems.append(f"an honest upload got {asked[0]}: {asked[2][:200]!r}")
            time.sleep(float(asked[1].get("retry-after", 5)))
        body = asked[2]
        key = json.loads(body)["id"]
        found = server.wait(key, seconds=600)
        if found["state"] == "failed":
            day.failed.append(str(found.get("error")))
        elif digest(server, key) != expected:
            day.problems.append("a result differs")
        else:
            day.waits.append(time.monotonic() - begun)
        server.ask("DELETE", f"api/recordings/{key}")


def hostile(server: Server, until: float, day: Day, *, rng: random.Random) -> None:
    """Send hostile requests and files that cost much to read."""
    while time.monotonic() < until:
        day.hostile += 1
        with suppress(OSError, RuntimeError, ValueError):  # where he is refused
            if rng.random() < 0.3:
                size = rng.choice([10**5, 10**6])
                head = rng.choice([b"fLaC", b"\xff\xfb\x90\x00", b"\x1a\x45\xdf\xa3", b"OggS"])
                data = rng.choice([head * (size // 4), head + b"\xff" * size, rng.randbytes(size)])
                length = f"Content-Length: {len(data)}\r\n"
                request(server, "POST /TOKEN/api/recordings?preset=fast", length, data)
            else:
                rng.choice(ATTACKS)(server, rng)
        time.sleep(rng.uniform(1, 5))


def trouble(server: Server, rng: random.Random, until: float, day: Day) -> None:
    """Kill processes of the server, fill its disk, and watch it."""
    process = psutil.Process(server.process.pid)
    while time.monotonic() < until:
        children = process.children(recursive=True)
        with suppress(psutil.NoSuchProcess):
            first, *rest = (each.memory_full_info().pss / 1e6 for each in (process, *children))
            day.memory.append((first, first + sum(rest)))
        day.asked += 1
        with suppress(OSError):
            day.answered += server.ask("GET", "/health", whole=True)[0] == 200
        if children and rng.random() < 0.1:
            with suppress(psutil.NoSuchProcess):
                rng.choice(children).kill()
                day.kills += 1
        if rng.random() < 0.02:
            ballast = server.folder / "ballast"
            with suppress(OSError):
                ballast.write_bytes(bytes(DISK * 10**6))
            time.sleep(10)
            ballast.unlink()
        time.sleep(2)


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Have a folder lie on a disk of its own."""
    folder.mkdir()
    size = f"size={DISK}m"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def spend(folder: Path, seconds: float, seed: int) -> Day:
    """Run a day of so many seconds."""
    sample, rate = soundfile.read(SAMPLE)
    soundfile.write(folder / "honest.wav", np.resize(sample, SECONDS * rate), rate)
    sound = (folder / "honest.wav").read_bytes()
    day, place = Day(), folder / "tmp"
    with small_disk(place):
        with running(place, "--public", "--jobs", "2") as server:
            alone = []
            for _ in range(3):
                begun = time.monotonic()
                expected = digest(server, server.send(folder / "honest.wav"))
                alone.append(time.monotonic() - begun)
            day.alone = median(alone)
            until = time.monotonic() + seconds
            threads = [threading.Thread(target=trouble, args=(server, _rng(seed, 0), until, day))]
            for k in range(1, GUESTS + 1):
                guest = copy.copy(server)
                guest.headers = {"X-Forwarded-For": f"192.0.2.{k}"}
                work: Any = partial(honest, sound=sound, expected=expected) if k % 2 else hostile
                work = partial(work, guest, until, day, rng=_rng(seed, k))
                threads.append(threading.Thread(target=work))
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if server.ask("GET", "/health", whole=True)[0] != 200:
                day.problems.append("the server does not answer")
        if "Traceback" in (folder / "tmp.log").read_text():
            day.problems.append("a traceback in the terminal")
        day.problems += [f"left: {path}" for path in place.rglob("*")]
    return day


def _rng(seed: int, guest: int) -> random.Random:
    return random.Random(f"{seed} {guest}")


def main(*, minutes: float = 60, seed: int = 0) -> None:
    """Print what happened."""
    with tempfile.TemporaryDirectory(prefix="server-day-") as folder:
        day = spend(Path(folder), 60 * minutes, seed)
    times = max(day.waits, default=float("nan")) / day.alone
    quarters, most = day.quarters(), max(held for _, held in day.memory)
    own = [held for held, _ in day.memory]
    rows = {
        "recordings denoised": len(day.waits),
        "turned away for some seconds": day.turned_away,
        "failed, as a process was killed or the disk was full": len(day.failed),
        "hostile requests": day.hostile,
        "processes killed": day.kills,
        "/health answered": f"{day.answered} of {day.asked}",
        "a recording alone, s": f"{day.alone:.1f}",
        "longest wait, in times of that": f"{times:.1f}",
        "median wait, in times of that": f"{median(day.waits or [0.0]) / day.alone:.1f}",
        "memory by quarter of the time, MB": ", ".join(f"{each:.0f}" for each in quarters),
        "most memory, MB": f"{most:.0f}",
        "the server's own, first and last, MB": f"{own[0]:.0f}, {own[-1]:.0f}",
    }
    print(tables.markdown(["what", "found"], [[what, f"{found}"] for what, found in rows.items()]))
    print(f"failed: {sorted(set(day.failed))}\nwrong: {day.problems}")
    grown = quarters[-1] > LEVEL * quarters[len(quarters) // 4]
    raise SystemExit(bool(day.problems) or not times <= 10 or most > MEMORY or grown)


if __name__ == "__main__":
    run_main(main)
