"""Denoise pipes in real time at low latency, or files in the same way."""

from collections.abc import Callable, Iterator
from typing import Any

from alphamf.audio.live_input import NAME, PipeStream, SampleFormat, encode_raw
from alphamf.denoising.segments import Segment
from alphamf.denoising.stream import Stream, open_stream
from alphamf.denoising.stream_options import StreamOptions
from alphamf.errors import AlphaMFError
from alphamf.tools.stopping import finish_on_interrupt, finish_requested


def run(
    pipe: int, write: Callable[[bytes], Any], options: StreamOptions, raw: SampleFormat | None
) -> tuple[float, list[str]]:
    """Denoise a pipe to its end or Ctrl-C; return the length in seconds, and notes for the user."""
    with finish_on_interrupt():
        pipe_stream = PipeStream(pipe, raw)
        kind, samples = pipe_stream.kind, 0
        notes: list[str] = []
        with open_stream(kind.rate, kind.channels, options) as stream:
            if pipe_stream.header:
                write(pipe_stream.header)
            for segment in _denoised(pipe_stream, stream):
                samples += len(segment.audio)
                notes += [segment.note] if segment.note else []
                if len(segment.audio):
                    write(encode_raw(segment.audio, kind))
        if not samples and not finish_requested():
            raise AlphaMFError(f"{NAME} has no samples")
    return samples / kind.rate, notes


def _denoised(pipe_stream: PipeStream, stream: Stream) -> Iterator[Segment]:
    """Yield denoised sound as soon as it is ready, including all sound before an error."""
    try:
        for block in pipe_stream.blocks():
            yield from stream.segments(block)
    except (AlphaMFError, OSError):
        yield from stream.rest()
        raise
    yield from stream.rest()
