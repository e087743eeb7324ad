"""Denoise what flows through pipes, at low latency; or files, as a pipe would be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from numpy.typing import ArrayLike

from alphamf.audio.flow import Flow, Kind, encoded
from alphamf.audio.live import NAME
from alphamf.denoising.api import denoise_stream
from alphamf.denoising.settings import Settings
from alphamf.denoising.stream import Segment, Stream
from alphamf.errors import AlphaMFError
from alphamf.tools.stopping import finish_asked, finishing


def run(
    pipe: int,
    write: Callable[[bytes], Any],
    settings: Settings,
    *,
    raw: Kind | None = None,
    model: str = "auto",
    seed: int = 0,
    max_channels: int,
) -> tuple[float, list[str]]:
    """Denoise what comes through a pipe until it ends; return its length in seconds, and notes.

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
    OSError
        The pipe cannot be read; what came before is written.
    """
    with finishing():
        flow = Flow(pipe, raw)
        kind, samples = flow.kind, 0
        notes: list[str] = []
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
            for segment in _denoised(flow, stream):
                samples += len(segment.audio)
                notes += [segment.note] if segment.note else []
                if len(segment.audio):
                    write(encoded(segment.audio, kind))
        if not samples and not finish_asked():
            raise AlphaMFError(f"{NAME} holds no samples")
    return samples / kind.rate, notes


def _denoised(flow: Flow, stream: Stream) -> Iterator[Segment]:
    """Yield sound as it is ready, and all that came before an error."""
    try:
        for block in flow.blocks():
            yield from stream.segments(block)
    except (AlphaMFError, OSError):
        yield from stream.rest()
        raise
    yield from stream.rest()


def estimate(
    blocks: Iterable[ArrayLike], *, jobs: int, device: str, **options: Any
) -> Iterator[Segment]:
    """Do as `denoise_stream` at low latency, which is for one job and the CPU."""
    return denoise_stream(blocks, latency="low", **options)
