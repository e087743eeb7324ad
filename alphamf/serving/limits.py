"""What the server allows: sizes, lengths, counts and times."""

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
        Most samples of a recording over all channels: two hours of stereo at 48 kHz.
    jobs
        Recordings that are kept at a time; more are refused.
    uploads
        Uploads that are received at a time.
    connections
        Connections at a time.
    head, idle
        Longest wait for the head of a request, and for the next part of an upload, in seconds.
    least_rate
        Bytes per second that an upload must bring on average, once it has lasted for `idle`.
    reading
        Longest time that decoding a recording may take, in seconds.
    age
        How long a recording and its results are kept, in seconds.
    spare
        Bytes that an upload must leave free on the disk.
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
