"""A recording that another process decodes, and a media file that another process writes."""

import os
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from alphamf.audio.decoder import sandbox
from alphamf.audio.decoder.sandbox import ConfinedProcess, NoSandboxError
from alphamf.audio.file_pieces import Sink
from alphamf.audio.media.muxer import Original
from alphamf.audio.media.track import About
from alphamf.audio.opening import Ending
from alphamf.tools.files import file_errors, printable_name

CHANNELS = 1024
"""Maximum number of channels that libsndfile reads."""

_LONGEST = 200
"""Maximum number of characters of a text in a decoder's facts; the rest is dropped."""

_WRONG = (LookupError, TypeError, ValueError, ArithmeticError)
"""Exceptions that an invalid answer may cause."""


class ConfinedSound:
    """A recording decoded from its start by a confined process, with the interface of `Sound`."""

    samplerate: int
    channels: int
    frames: int
    format: str
    subtype: str
    count: int
    spare: int
    cut: str | None

    def __init__(
        self, descriptor: int, name: str, ending: str = "", track: int | None = None
    ) -> None:
        asked = {"name": name, "ending": ending, "track": track}
        self._decoder = ConfinedProcess(asked, [descriptor], f"{name} cannot be decoded")
        try:
            self._describe(self._decoder.facts(self._decoder.answer()))
        except BaseException:
            self._decoder.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._decoder.close()

    def read(self, frames: int, dtype: str = "float32") -> NDArray[Any]:
        """Return the next samples, shape (n, channels); fewer than asked for at the end."""
        if self._media:
            dtype = "float32"
        kind, size = (sandbox.READ_WIDE, 8) if dtype == "float64" else (sandbox.READ, 4)
        length = self._decoder.ask(kind, number=frames)
        size *= self.channels
        if length > frames * size or length % size:
            raise self._decoder.crash_error()
        block = np.empty((length // size, self.channels), dtype)
        if length:
            self._decoder.fill(block.data.cast("B"))
        return block

    def ending(self) -> Ending:
        """Return the facts that are known after all samples were read."""
        facts = self._decoder.facts(self._decoder.ask(sandbox.ENDING, number=0))
        try:
            about = facts["about"]
            return Ending(int(facts["promised"]), bool(facts["wrong"]), about and _about(about))
        except _WRONG:
            raise self._decoder.crash_error() from None

    def _describe(self, facts: Any) -> None:
        """Store a decoder's facts about the file; raise an AlphaMFError if they are implausible."""
        try:
            numbers = (int(facts[key]) for key in ("samplerate", "channels", "frames"))
            self.samplerate, self.channels, self.frames = numbers
            self.format, self.subtype = _name(facts["format"]), _name(facts["subtype"])
            self._media = bool(facts["media"])
            self.count, self.spare = int(facts["count"]), int(facts["spare"])
            self.cut = None if facts["cut"] is None else _name(facts["cut"])
        except _WRONG:
            raise self._decoder.crash_error() from None
        least = min(self.samplerate, self.channels - 1, self.frames, self.count - 1, self.spare)
        if least < 0 or self.channels > CHANNELS:
            raise self._decoder.crash_error()


def _about(facts: Any) -> About:
    number, count, index, bit_rate = (
        int(facts[key]) for key in ("number", "count", "index", "bit_rate")
    )
    start = Fraction(int(facts["start"][0]), int(facts["start"][1]))
    layout, codec = (_name(facts[key]) for key in ("layout", "codec"))
    others = tuple(_name(other) for other in facts["others"])
    return About(number, count, index, start, bit_rate, layout, codec, others)


def _name(value: object) -> str:
    return printable_name(str(value)[:_LONGEST]) if value != "" else ""


def open_confined(path: Path, name: str, track: int | None) -> ConfinedSound:
    """Open a file in a confined process, which decodes it."""
    with file_errors(name, "read"):
        descriptor = os.open(path, os.O_RDONLY)
    try:
        return ConfinedSound(descriptor, name, path.suffix, track)
    finally:
        os.close(descriptor)


def open_bytes_confined(data: bytes, name: str) -> ConfinedSound:
    """Open the first bytes of a file in a confined process, which decodes them."""
    if sys.platform != "linux":
        raise NoSandboxError
    with open(os.memfd_create("alphamf"), "w+b") as file:
        file.write(data)
        file.flush()
        return ConfinedSound(file.fileno(), name)


class ConfinedMuxer:
    """A `Muxer` in a confined process that can use only the original and the output."""

    def __init__(
        self, original: Original, sink: Sink, output: str, options: dict[str, Any]
    ) -> None:
        about: dict[str, Any] = {**vars(original.track), "others": ()}
        about["start"] = original.track.start.as_integer_ratio()
        asked: dict[str, Any] = {"name": original.name, "ending": "", "output": output}
        asked |= {"muxer": options, "about": about, "cut": original.cut}
        self.subtype: str = options["subtype"]
        with original.path.open("rb") as file:
            files = [file.fileno(), sink.fileno()]
            self._process = ConfinedProcess(asked, files, f"{output} cannot be written")
        try:
            found = self._process.facts(self._process.answer())
            self.omitted_tracks: tuple[str, ...] = tuple(map(_name, found))
        except BaseException:
            self._process.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                self._process.ask(sandbox.FINISH)
        finally:
            self._process.close()

    def write(self, data: Any) -> None:
        """Append samples, shape (n, channels): float32, or int32 that uses the upper bits."""
        kind = sandbox.INTEGERS if data.dtype == np.int32 else sandbox.FLOATS
        self._process.ask(kind, np.ascontiguousarray(data))
