"""Limits of the server: sizes, lengths, counts and times."""

from __future__ import annotations

from dataclasses import dataclass

MB = 10**6


@dataclass(frozen=True)
class Limits:
    """Limits of a server.

    Attributes
    ----------
    upload
        Largest upload in bytes.
    samples
        Maximum number of samples of a recording over all channels: two hours of stereo at 48 kHz.
    jobs
        Recordings that are kept at a time; more are refused.
    uploads
        Uploads that are received at a time.
    connections
        Connections at a time; of these, only those with a request of a user are kept for sure.
    head, idle
        Longest wait for a request, and for the next part of an upload or of an answer to go
        through, in seconds.
    least_rate
        Bytes per second that an upload must bring on average, in every `idle` seconds.
    reading
        Longest time that decoding a recording may take, in seconds.
    age
        How long a recording and its results are kept, in seconds.
    spare
        Bytes that uploads and results must leave free on the disk.
    per_minute
        Uploads that are begun in a minute, of all visitors together; None for any number.
    named
        Whether the server keeps the names of files.
    """

    upload: int = 1000 * MB
    samples: int = 2 * 3600 * 48_000 * 2
    jobs: int = 100
    uploads: int = 8
    connections: int = 128
    head: float = 20.0
    idle: float = 20.0
    least_rate: float = 1000.0
    reading: float = 300.0
    age: float = 24 * 3600.0
    spare: int = 200 * MB
    per_minute: int | None = None
    named: bool = True


PUBLIC = Limits(
    upload=100 * MB,
    samples=10 * 60 * 48_000 * 2,
    jobs=30,
    uploads=4,
    age=15 * 60.0,
    per_minute=10,
    named=False,
)
"""Limits of a server that everybody may use: ten minutes of stereo, deleted after a quarter of an
hour."""
