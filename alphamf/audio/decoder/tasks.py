"""Tasks of a confined process: decode its file, or copy the file's other tracks."""

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

FACTS = (
    "samplerate", "channels", "frames", "format", "subtype", "media", "count", "spare", "cut",
)  # fmt: skip
"""What is known of a `Sound` at its start."""


def decode(channel: io.FileIO, source: Handle, asked: dict[str, Any]) -> None:
    """Open a file and decode what is asked for, until the channel is closed."""
    sound: Sound | None = None

    def first() -> bytes:
        nonlocal sound
        sound = Sound(source, asked["name"], asked["track"], ending=asked["ending"])
        return json.dumps({name: getattr(sound, name) for name in FACTS}).encode()

    _answer(channel, first)
    with suppress(EOFError):
        while sound is not None:
            kind, number = sandbox.header(channel)
            _answer(channel, partial(_decode, sound, kind, number))


def copy(channel: io.FileIO, source: Handle, sink: Sink, asked: dict[str, Any]) -> None:
    """Write a media file from received sound and the other tracks of another file."""
    muxer: Muxer | None = None

    def first() -> bytes:
        nonlocal muxer
        muxer = _muxer(source, sink, asked)
        return json.dumps(muxer.omitted_tracks).encode()

    _answer(channel, first)
    with suppress(EOFError):
        while muxer is not None:
            kind, length = sandbox.header(channel)
            data = bytearray(length)
            sandbox.fill(channel, memoryview(data))
            _answer(channel, partial(_write, muxer, sink, kind, data, asked["channels"]))


def tag(channel: io.FileIO, source: Handle, output: BinaryIO, asked: dict[str, Any]) -> None:
    """Copy the tags of a file: answer what is lost, then write them when asked to."""
    made: Any = None

    def first() -> bytes:
        nonlocal made
        original = source if asked.pop("copied") else None
        made, lost = tags.copied(original, output, **asked)
        return json.dumps(lost).encode()

    def write() -> bytes:
        if made is not None:
            tags.save(made, output)
            output.flush()
        return b""

    _answer(channel, first)
    with suppress(EOFError):
        sandbox.header(channel)
        _answer(channel, write)


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
    if kind == sandbox.SEEK:
        sound.seek(number)
        return b""
    ending = sound.ending()
    about = ending.about
    found = about and {**vars(about), "start": about.start.as_integer_ratio()}
    return json.dumps({**ending._asdict(), "about": found}).encode()


def _muxer(source: Handle, sink: Sink, asked: dict[str, Any]) -> Muxer:
    about = {**asked["about"], "start": Fraction(*asked["about"]["start"]), "others": ()}
    return Muxer(
        sink,
        asked["rate"],
        asked["channels"],
        muxer=asked["muxer"],
        subtype=asked["subtype"],
        original=Original(source, asked["name"], About(**about), asked["cut"]),
        history=asked["history"],
    )


def _write(muxer: Muxer, sink: Sink, kind: bytes, data: bytearray, channels: int) -> bytes:
    if kind == sandbox.FINISH:
        muxer.__exit__(None)
    else:
        block = np.frombuffer(data, np.float32 if kind == sandbox.FLOATS else np.int32)
        muxer.write(block.reshape(-1, channels))
    sink.check()
    return b""
