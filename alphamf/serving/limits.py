"""Limits of the server: sizes, lengths, counts and times, and free space on its disk."""

import shutil
from dataclasses import dataclass
from math import inf
from pathlib import Path

from alphamf.errors import AlphaMFError

MB = 10**6


@dataclass(frozen=True)
class Limits:
    """Limits of a server for uploads, recordings, connections and times."""

    upload: int = 1000 * MB  # Largest upload in bytes
    # Maximum number of samples of a recording over all channels: two hours of stereo at 48 kHz.
    samples: int = 2 * 3600 * 48_000 * 2
    jobs: int = 100  # Maximum number of recordings that are kept at a time
    uploads: int = 8  # Maximum number of uploads that are received at a time
    # Maximum number of connections; a new one may close the oldest that serves no user.
    connections: int = 128
    # head: longest wait for a request, in seconds. idle: longest wait for the next part of an
    # upload, or until a part of an answer is sent, in seconds.
    head: float = 20.0
    idle: float = 20.0
    # Minimum rate of an upload in bytes per second, on average over every `idle` seconds.
    least_rate: float = 1000.0
    # Longest time of reading a recording, denoising a preview or writing a download, in seconds.
    short: float = 300.0
    # Longest time of denoising beyond `short`, in seconds per second of sound and channel.
    long: float = 100.0
    age: float = 24 * 3600.0  # How long a recording and its results are kept, in seconds
    spare: int = 200 * MB  # Bytes that uploads and results must leave free on the disk
    # Maximum number of uploads begun per minute, by each visitor if `guests`, otherwise by all
    per_minute: float = inf
    named: bool = True  # Whether the server keeps the names of files
    # Whether strangers share the server: they take turns, and each has a part of some limits.
    guests: bool = False

    def part(self, count: int) -> int:
        """Return a visitor's part of `count`: an eighth, at least 1, if `guests`, otherwise all."""
        return max(1, count // 8) if self.guests else count


PUBLIC = Limits(
    upload=100 * MB,
    samples=10 * 60 * 48_000 * 2,
    uploads=16,
    age=15 * 60.0,
    per_minute=10,
    named=False,
    guests=True,
    short=60.0,
)
"""Limits of a server that everybody may use; `samples`: 10 minutes of stereo at 48 kHz."""


def has_room(folder: Path, size: int, spare: int) -> bool:
    """Return whether a folder's disk has room for `size` bytes and still `spare` free bytes."""
    return shutil.disk_usage(folder).free >= size + spare


def check_room(folder: Path, size: int, spare: int) -> None:
    """Raise an AlphaMFError if the disk does not have enough space; see `has_room`."""
    if not has_room(folder, size, spare):
        raise AlphaMFError("the server's disk does not have enough free space for the result")
