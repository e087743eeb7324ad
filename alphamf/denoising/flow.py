"""Denoise what flows through pipes, at low latency; or files, as a pipe would be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from numpy.typing import ArrayLike

from alphamf.audio.flow import Flow, Kind, encoded
from alphamf.denoising.api import denoise_stream
from alphamf.denoising.settings import Settings
from alphamf.denoising.stream import Segment, Stream
from alphamf.tools.stopping import finishing


def run(
    pipe: int,
    write: Callable[[bytes], Any],
    settings: Settings,
    *,
    raw: Kind | None = None,
    model: str = "auto",
    seed: int = 0,
    max_channels: int,
) -> float:
    """Denoise what comes through a pipe until it ends, and return its length in seconds.

    Parameters
    ----------
    pipe
        Its descriptor.
    write
        Takes the bytes of the output, in the input's format, as soon as they are known.
    settings, model, seed, max_channels
        As in `Stream`.
    raw
        What the samples are; None for WAV.

    Raises
    ------
    AlphaMFError
        What comes is no sound, or less than its header promises, of which all is written that came.
    """
    with finishing():
        flow = Flow(pipe, raw)
        kind, samples = flow.kind, 0
        with Stream(
            kind.rate,
            kind.channels,
            settings,
            model=model,
            latency="low",
            seed=seed,
            max_channels=max_channels,
        ) as stream:
            if flow.header:
                write(flow.header)
            try:
                for block in flow.blocks():
                    samples += len(block)
                    if len(ready := stream.process(block)):
                        write(encoded(ready, kind))
            finally:
                write(encoded(stream.flush(), kind))
    return samples / kind.rate


def estimate(
    blocks: Iterable[ArrayLike], *, jobs: int, device: str, **options: Any
) -> Iterator[Segment]:
    """Do as `denoise_stream` at low latency, which is for one job and the CPU."""
    return denoise_stream(blocks, latency="low", **options)
