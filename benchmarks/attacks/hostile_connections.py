"""Clients that keep what `alphamf serve` has few of: connections, memory, space on the disk.

python -m benchmarks.attacks.hostile_connections

For each attack a server is started and attacked for half a minute, while another client asks for
`/health` every half second. The table says how often that was answered with 200, how many
connections the server has at the end, and how much memory and disk it used beyond what it has at
rest. Only 127.0.0.1 is asked. A disk that is small enough to be filled is a
tmpfs: that attack is left out where this user may not mount one.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
import soundfile

from benchmarks.page_server import Server, running
from benchmarks.report import options_of, run_main

HEALTH = "GET /health HTTP/1.1\r\nHost: {host}\r\n\r\n"
SOUND = "GET {path}api/recordings/{key}/sound?frames=480000 HTTP/1.1\r\nHost: {host}\r\n\r\n"
UPLOAD = (
    "POST {path}api/recordings HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n"
    "4\r\nRIFF\r\n"
)
DISK = 300
"""Size of the small disk in MB, of which the server leaves 200 free."""


@dataclass(frozen=True)
class Attack:
    """What each of several clients does."""

    name: str  # What it is, for the table
    first: str = ""  # What a client sends at once; `{host}`, `{path}` and `{key}` are the server's.
    answered: bool = False  # Whether it reads an answer before it goes on
    then: str = ""  # What it sends after that
    every: str = ""  # What it sends every half second from then on
    clients: int = 130  # How many there are
    channels: int = 0  # Channels of a recording of ten seconds that is uploaded before; 0 for none
    small: bool = False  # Whether the server's disk is a small one


ATTACKS = (
    Attack("say nothing"),
    Attack("send a head byte by byte", "GET /hea", every="a"),
    Attack("ask for `/health`, then send a byte", HEALTH, answered=True, then="G"),
    Attack("ask for `/health`, then send byte by byte", HEALTH, answered=True, every="G"),
    Attack(
        "ask for `/health` with a body that never ends",
        HEALTH.replace("\r\n\r\n", "\r\nContent-Length: 99999\r\n\r\n"),
        answered=True,
        every="a",
    ),
    Attack("ask for `/health` 20 000 times and read nothing", HEALTH * 20_000),
    Attack("upload byte by byte", UPLOAD, every="1\r\na\r\n"),
    Attack("ask for 60 channels of `/sound` and read nothing", SOUND, clients=12, channels=60),
    Attack("ask for 4 channels of `/sound` and read nothing", SOUND, clients=130, channels=4),
    Attack(
        "upload without a length until the disk is full",
        UPLOAD,
        every="1e8480\r\n" + 2_000_000 * "a" + "\r\n",
        clients=8,
        small=True,
    ),
)


class Client:
    """A connection that does what an attack says, without ever waiting long for the server."""

    def __init__(self, server: Server, attack: Attack, key: str) -> None:
        host, port = server.host.split(":")
        self._every = attack.every.encode()
        self._left = b""
        first = attack.first.format(host=server.host, path=server.path, key=key)
        self._socket = socket.create_connection((host, int(port)), timeout=2)
        with suppress(OSError):
            if attack.answered:
                self._socket.sendall(first.encode())
                self._socket.recv(65536)
                first = ""
        self._socket.setblocking(False)
        self.send(first.encode() + attack.then.encode())

    def send(self, more: bytes | None = None) -> None:
        """Send what the server takes, of what is left and then of more."""
        self._left = self._left or (self._every if more is None else more)
        with suppress(OSError):
            while self._left:
                self._left = self._left[self._socket.send(self._left) :]

    def close(self) -> None:
        """Leave."""
        self._socket.close()


def healthy(server: Server) -> bool:
    """Whether a client that comes anew gets its answer within two seconds."""
    host, port = server.host.split(":")
    try:
        with socket.create_connection((host, int(port)), timeout=2) as connection:
            connection.sendall(HEALTH.format(host=server.host).encode())
            return connection.recv(65536).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


def held(server: Server) -> int:
    """Return how many connections the server has."""
    found = psutil.Process(server.process.pid).net_connections("tcp")
    return sum(each.status not in ("LISTEN", "CLOSE") for each in found)


def uploaded(server: Server, folder: Path, channels: int) -> str:
    """Send a recording of ten seconds, wait until it has been read, and return its id."""
    path = folder / "wide.wav"
    noise = 0.1 * np.random.default_rng(1).standard_normal((480_000, channels))
    soundfile.write(path, noise.astype(np.float32), 48_000, subtype="PCM_16")
    key = server.send(path)
    server.wait(key, "waiting", "denoising", "failed")
    return key


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """Have a folder lie on a disk of its own; a CalledProcessError where that is not allowed."""
    folder.mkdir()
    size = f"size={DISK}m"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def run(attack: Attack, folder: Path, seconds: float) -> str:
    """Attack a server, and return a row of the table."""
    place = folder / "tmp"
    with ExitStack() as stack:
        if attack.small:
            stack.enter_context(small_disk(place))
        server = stack.enter_context(running(place, "--jobs", "1"))
        key = uploaded(server, folder, attack.channels) if attack.channels else ""
        process = psutil.Process(server.process.pid)
        rest, free = process.memory_info().rss, shutil.disk_usage(place).free
        most = used = answered = asked = 0
        clients = [Client(server, attack, key) for _ in range(attack.clients)]
        until = time.monotonic() + seconds
        while (begun := time.monotonic()) < until:
            asked += 1
            answered += healthy(server)
            for client in clients:
                client.send()
            most = max(most, process.memory_info().rss - rest)
            used = max(used, free - shutil.disk_usage(place).free)
            time.sleep(max(0.0, begun + 0.5 - time.monotonic()))
        left = held(server)
        for client in clients:
            client.close()
        disk = f"{used / 1e6:.0f}" if attack.small else ""
    return (
        f"| {attack.clients} clients {attack.name} | {answered} of {asked} | {left} "
        f"| {most / 1e6:.0f} | {disk} |"
    )


def main() -> None:
    """Print the table."""
    parser = options_of("benchmarks.attacks.hostile_connections", __doc__)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--only", help="a part of the name of the attacks to run", default="")
    options = parser.parse_args()
    print("| attack | `/health` answered | connections held | memory in MB | disk in MB |")
    print("|---|---|---:|---:|---:|")
    for attack in ATTACKS:
        if options.only in attack.name:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    print(run(attack, Path(folder), options.seconds))
                except subprocess.CalledProcessError:
                    print(f"| {attack.name} | left out | | | |")


if __name__ == "__main__":
    run_main(main)
