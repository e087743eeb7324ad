"""A recording that another process decodes, with the face of `soundfile.SoundFile`."""

from __future__ import annotations

import io
import json
import os
import socket
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from alphamf.audio.cut import Undecodable
from alphamf.audio.decoder import helper, messages
from alphamf.audio.media.track import About
from alphamf.errors import AlphaMFError
from alphamf.tools.files import reason, shown

CHANNELS = 1024
"""Most channels that libsndfile reads."""

_TEXT = 1 << 20
"""Most bytes of a sentence, or of what is known of a file."""


class Unconfined(Exception):
    """The kernel has nothing that confines a decoder, which has read nothing."""


class Sound:
    """A recording, decoded from its start by a process that can open nothing else.

    Parameters
    ----------
    descriptor
        The file's.
    name, ending
        Its name in messages, and its name's ending.
    track
        Number of the audio track, from 1 on; None: the default one.

    Attributes
    ----------
    samplerate, channels, frames, format, subtype
        As `soundfile.SoundFile` has them.
    tagged
        Whether libsndfile finds tags in it.

    Raises
    ------
    AlphaMFError
        The file cannot be read, or has no such track.
    Unconfined
        There is no sandbox on this system.
    """

    samplerate: int
    channels: int
    frames: int
    format: str
    subtype: str
    tagged: bool

    def __init__(self, descriptor: int, name: str, ending: str, track: int | None) -> None:
        self._name = name
        self._channel = _decoder(descriptor, name, ending, track)
        try:
            if not self._confined():
                raise Unconfined
            self._describe(self._facts())
        except BaseException:
            self._channel.close()
            raise

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the decoder."""
        self.close()

    def close(self) -> None:
        """End the decoder."""
        self._channel.close()

    def read(self, frames: int, dtype: str = "float32", **_: object) -> NDArray[Any]:
        """Return the next samples, shape (n, channels); fewer than asked for at the end.

        Raises
        ------
        Undecodable
            The file is damaged here.
        AlphaMFError
            The decoder crashed.
        """
        wide = dtype == "float64"
        length = self._ask(messages.READ_WIDE if wide else messages.READ, frames)
        size = self.channels * (8 if wide else 4)
        if length > frames * size or length % size:
            raise self._crashed()
        block = np.empty((length // size, self.channels), np.float64 if wide else np.float32)
        self._fill(memoryview(block).cast("B") if length else memoryview(b""))
        return block

    def seek(self, frames: int) -> None:
        """Move to a sample."""
        self._ask(messages.SEEK, frames)

    def about(self) -> About | None:
        """Return what is kept of the track of a media file, after it was read; None of others."""
        if not self._media:
            return None
        length = self._ask(messages.ABOUT, 0)
        facts = self._json(length)
        try:
            start, others = facts["start"], facts["others"]
            numbers = {key: int(facts[key]) for key in ("number", "count", "index", "bit_rate")}
            texts = {key: shown(str(facts[key])) for key in ("layout", "codec")}
            return About(
                **numbers,
                **texts,
                start=Fraction(int(start[0]), int(start[1])),
                others=tuple(shown(str(other)) for other in others),
            )
        except (LookupError, TypeError, ValueError, ArithmeticError):
            raise self._crashed() from None

    def _describe(self, facts: dict[str, Any]) -> None:
        """Take over what the decoder says of the file, as far as it can be true."""
        try:
            self.samplerate, self.channels = int(facts["samplerate"]), int(facts["channels"])
            self.frames = int(facts["frames"])
            self.format, self.subtype = (shown(str(facts[k])) for k in ("format", "subtype"))
            self.tagged, self._media = bool(facts["tagged"]), bool(facts["media"])
        except (LookupError, TypeError, ValueError, ArithmeticError):
            raise self._crashed() from None
        if not 0 < self.channels <= CHANNELS or self.samplerate <= 0 or self.frames < 0:
            raise self._crashed()

    def _confined(self) -> bool:
        """Whether the decoder has given up its rights; it has not read the file yet."""
        layers = bytearray(1)
        try:
            messages.header(self._channel)
            messages.fill(self._channel, memoryview(layers))
        except EOFError:
            raise AlphaMFError(_unstarted(self._name, "it ended at once")) from None
        return layers[0] != 0

    def _facts(self) -> dict[str, Any]:
        return self._json(self._answer())

    def _ask(self, kind: bytes, number: int) -> int:
        """Ask the decoder for something, and return how many bytes it answers with."""
        try:
            messages.send(self._channel, kind, number=number)
        except EOFError:
            raise self._crashed() from None
        return self._answer()

    def _answer(self) -> int:
        """Return how many bytes the decoder answers with, or raise the error that it sends."""
        try:
            kind, length = messages.header(self._channel)
        except EOFError:
            raise self._crashed() from None
        if kind == messages.DONE:
            return length
        if kind == messages.MEMORY:
            raise MemoryError
        sentence = shown(self._bytes(length).decode("utf-8", "replace"))
        if kind == messages.UNDECODABLE:
            raise Undecodable(sentence)
        if kind == messages.REFUSED:
            raise AlphaMFError(sentence)
        raise self._crashed()

    def _json(self, length: int) -> dict[str, Any]:
        try:
            facts = json.loads(self._bytes(length))
        except (ValueError, RecursionError):
            facts = None
        if not isinstance(facts, dict):
            raise self._crashed()
        return facts

    def _bytes(self, length: int) -> bytearray:
        if length > _TEXT:
            raise self._crashed()
        data = bytearray(length)
        self._fill(memoryview(data))
        return data

    def _fill(self, into: memoryview) -> None:
        try:
            messages.fill(self._channel, into)
        except EOFError:
            raise self._crashed() from None

    def _crashed(self) -> AlphaMFError:
        return AlphaMFError(f"{self._name} cannot be decoded: the decoder crashed")


def open_apart(path: Path, name: str, track: int | None) -> Sound:
    """Have a file decoded by a process that can open nothing else.

    Parameters
    ----------
    path, name, track
        As for `alphamf.audio.survey.open_sound`.

    Raises
    ------
    AlphaMFError, Unconfined
        As `Sound`.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise AlphaMFError(f"{name} cannot be read: {reason(error)}") from error
    try:
        return Sound(descriptor, name, path.suffix, track)
    finally:
        os.close(descriptor)


def _decoder(descriptor: int, name: str, ending: str, track: int | None) -> io.FileIO:
    """Have a decoder made, and return the channel to it."""
    text = f"{ending}\0{name}".encode("utf-8", "surrogateescape")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        try:
            helper.request(messages.REQUEST.pack(track or 0) + text, [descriptor, theirs.fileno()])
        except OSError as error:
            raise AlphaMFError(_unstarted(name, reason(error))) from error
        return io.FileIO(ours.detach(), "r+")


def _unstarted(name: str, why: str) -> str:
    return (
        f"{name} cannot be decoded: no process can be started for it ({why}); "
        "--no-sandbox decodes without one"
    )
