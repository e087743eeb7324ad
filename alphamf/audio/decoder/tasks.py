"""Tasks of a confined process: decode its file, or copy the file's other tracks or its tags."""

import io
import json
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from alphamf.audio import tags
from alphamf.audio.decoder import sandbox
from alphamf.audio.file_pieces import DecodingError, Handle, Sink
from alphamf.audio.media.muxer import Muxer, Original
from alphamf.audio.media.track import About
from alphamf.audio.opening import Sound
from alphamf.errors import AlphaMFError

FACTS = "samplerate channels frames format subtype media count spare cut".split()
"""Attributes of a `Sound` that are known when it is opened."""

Step = Callable[[bytes, int], Any]
"""Function that returns the answer to a request, given the kind and the number of the request."""


def run(channel: io.FileIO, start: Callable[[], tuple[Any, Step]]) -> None:
    """Start a task, send its facts or error, and answer requests until the channel is closed."""
    step: Step | None = None

    def first() -> bytes:
        nonlocal step
        facts, step = start()
        return json.dumps(facts).encode()

    _answer(channel, first)
    with suppress(EOFError):
        while step is not None:
            _answer(channel, partial(step, *sandbox.header(channel)))


def decode(source: Handle, asked: dict[str, Any]) -> tuple[dict[str, Any], Step]:
    """Open a file; return its facts, and the step that decodes on request."""
    sound = Sound(source, asked["name"], asked["track"], ending=asked["ending"])
    return {name: getattr(sound, name) for name in FACTS}, partial(_decode, sound)


def copy(
    source: Handle, sink: Sink, asked: dict[str, Any], channel: io.FileIO
) -> tuple[tuple[str, ...], Step]:
    """Begin a media file with `source`'s tracks; return omitted ones, and the step that writes."""
    about, muxer = asked["about"], asked["muxer"]
    track = About(**{**about, "start": Fraction(*about["start"]), "others": ()})
    original = Original(source, asked["name"], track, asked["cut"])
    made = Muxer(sink, original=original, **muxer)
    return made.omitted_tracks, partial(_write, made, sink, channel, muxer["channels"])


def tag(source: Handle, output: BinaryIO, asked: dict[str, Any]) -> tuple[str | None, Step]:
    """Read the tags of a file; return a note on losses, if any, and the step that saves tags."""
    original = source if asked.pop("copied") else None
    made, lost = tags.copied(original, output, **asked)

    def write(kind: bytes, number: int) -> bytes:
        if made is not None:
            tags.save(made, output)
            output.flush()
        return b""

    return lost, write


def _answer(channel: io.FileIO, work: Callable[[], Any]) -> None:
    """Send the result of a function, or the message of its exception."""
    try:
        answer = sandbox.DONE, work()
    except AlphaMFError as error:
        answer = sandbox.REFUSED, _text(error)
    except DecodingError as error:
        answer = sandbox.UNDECODABLE, _text(error)
    except ValueError as error:
        answer = sandbox.INVALID, _text(error)
    except MemoryError:
        answer = sandbox.MEMORY, b""
    sandbox.send(channel, *answer)


def _text(sentence: object) -> bytes:
    return str(sentence).encode("utf-8", "replace")


def _decode(sound: Sound, kind: bytes, number: int) -> Any:
    if kind == sandbox.READ:
        return sound.read(number)
    if kind == sandbox.READ_WIDE:
        return sound.read(number, "float64")
    ending = sound.ending()
    about = ending.about
    found = about and {**vars(about), "start": about.start.as_integer_ratio()}
    return json.dumps({**ending._asdict(), "about": found}).encode()


def _write(
    muxer: Muxer, sink: Sink, channel: io.FileIO, channels: int, kind: bytes, length: int
) -> bytes:
    data = bytearray(length)
    sandbox.fill(channel, memoryview(data))
    if kind == sandbox.FINISH:
        muxer.__exit__(None)
    else:
        block = np.frombuffer(data, np.float32 if kind == sandbox.FLOATS else np.int32)
        muxer.write(block.reshape(-1, channels))
    sink.check()
    return b""
