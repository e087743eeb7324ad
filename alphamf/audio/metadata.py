"""Copy the metadata of an input to an output, as far as their formats allow.

Chunks of WAV, RF64 and AIFF files, blocks of FLAC and tags of MP3 are copied byte for byte, without
reading the samples into memory.
"""

import os
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple

from alphamf.audio import mp3, tags
from alphamf.audio.chunks import end_of_chunks, walk
from alphamf.audio.decoder import sandbox
from alphamf.audio.decoder.sandbox import ConfinedProcess, NoSandboxError
from alphamf.audio.file_pieces import Scan
from alphamf.errors import AlphaMFError
from alphamf.tools.files import printable_name

_BLOCK = 1 << 20


class ByteRange(NamedTuple):
    """The bytes from `start` to `end` of an open file."""

    file: BinaryIO
    start: int
    end: int


def length(pieces: Sequence[ByteRange | bytes]) -> int:
    """Return the total length of pieces in bytes."""
    return sum(len(p) if isinstance(p, bytes) else p.end - p.start for p in pieces)


def splice(file: BinaryIO, start: int, end: int, pieces: Sequence[ByteRange | bytes]) -> None:
    """Replace the bytes `start` to `end` of a file by pieces; the rest of the file is moved."""
    size = file.seek(0, os.SEEK_END)
    shift = length(pieces) - (end - start)
    _move(file, end, size, shift)
    if shift < 0:
        file.truncate(size + shift)
    file.seek(start)
    for piece in pieces:
        if isinstance(piece, bytes):
            file.write(piece)
            continue
        piece.file.seek(piece.start)
        left = piece.end - piece.start
        while left and (block := piece.file.read(min(left, _BLOCK))):
            file.write(block)
            left -= len(block)


def _move(file: BinaryIO, start: int, end: int, shift: int) -> None:
    """Move the bytes from `start` to `end` by `shift`; the copying order depends on its sign."""
    places = range(start, end, _BLOCK)
    for at in reversed(places) if shift > 0 else places if shift else ():
        file.seek(at)
        block = file.read(min(_BLOCK, end - at))
        file.seek(at + shift)
        file.write(block)


_OWN = (
    b"fmt ", b"fact", b"data", b"ds64", b"PEAK", b"levl", b"JUNK", b"FLLR", b"PAD ",
    b"COMM", b"SSND", b"FVER",
)  # fmt: skip
"""Chunks that describe the samples or fill space: the output keeps its own."""

_SAMPLES = (b"data", b"SSND")
_BEXT = 602
"""Length of a bext chunk without its history, in bytes."""


class _Chunk(NamedTuple):
    """A chunk: its name, the start of its header, and the end of its contents."""

    kind: bytes
    start: int
    end: int


def keep_chunks(
    source: Path | None, output: Path, order: Literal["<", ">"], history: str | None
) -> None:
    """Copy the metadata chunks of `source`, if any, to `output`; add a line `history`, if any."""
    with (source or output).open("rb") as old, output.open("r+b") as new:
        before: list[ByteRange | bytes] = []
        after: list[ByteRange | bytes] = []
        place, noted = before, history is None
        kinds = (b"RIFF", b"RF64") if order == "<" else (b"FORM",)
        for chunk in _chunks(old, order) if source and old.read(4) in kinds else []:
            if chunk.kind in _SAMPLES:
                place = after
            if chunk.kind in _OWN:
                continue
            if chunk.kind == b"bext" and history is not None and order == "<":
                old.seek(chunk.start + 8)
                contents = old.read(chunk.end - chunk.start - 8)
                place.append(_chunk(b"bext", _noted(contents, history), order))
                noted = True
                continue
            if place and isinstance(place[-1], ByteRange) and place[-1].end == chunk.start:
                place[-1] = place[-1]._replace(end=chunk.end)
            else:
                place.append(ByteRange(old, chunk.start, chunk.end))
            if (chunk.end - chunk.start) % 2:
                place.append(b"\0")
        if history is not None and not noted:
            line = _noted(b"", history) if order == "<" else history.encode()
            before.append(_chunk(b"bext" if order == "<" else b"ANNO", line, order))
        _insert(new, order, before, after)


def _insert(
    file: BinaryIO,
    order: Literal["<", ">"],
    before: list[ByteRange | bytes],
    after: list[ByteRange | bytes],
) -> None:
    """Insert pieces before the samples and at the end, and update the size in the header."""
    samples = next((c.start for c in _chunks(file, order) if c.kind in _SAMPLES), None)
    if samples is None or not (before or after):
        return
    end = file.seek(0, os.SEEK_END)
    splice(file, end, end, [b"\0" * (end % 2), *after])
    splice(file, samples, samples, before)
    size = file.seek(0, os.SEEK_END) - 8
    file.seek(0)
    if file.read(4) == b"RF64":
        file.seek(20)
        file.write(struct.pack("<Q", size))
    else:
        file.seek(4)
        file.write(struct.pack(f"{order}I", min(size, 0xFFFFFFFF)))


def _chunks(file: BinaryIO, order: Literal["<", ">"]) -> Iterator[_Chunk]:
    """Yield the complete chunks; the samples' chunk may be truncated or of unknown length.

    If its length in the header is too short, more samples follow; it is then the last chunk.
    """
    data = Scan(file)
    last = data.size
    for chunk in walk(data, order):
        end = chunk.start + chunk.length
        if chunk.start - 8 >= last or (end > data.size and chunk.kind not in _SAMPLES):
            return
        yield _Chunk(chunk.kind, chunk.start - 8, end)
        if end > data.size:  # perhaps beyond all positions in files, if the header is damaged
            return
        if chunk.kind in _SAMPLES:
            last = end_of_chunks(data, end, order)
            if chunk.length == 0 and last < data.size:
                return


def _chunk(kind: bytes, contents: bytes, order: Literal["<", ">"]) -> bytes:
    """Return a chunk with its header, padded to an even length."""
    return struct.pack(f"{order}4sI", kind, len(contents)) + contents + b"\0" * (len(contents) % 2)


def _noted(bext: bytes, line: str) -> bytes:
    """Return the contents of a bext chunk with a line added to its history."""
    fixed, history = bext[:_BEXT].ljust(_BEXT, b"\0"), bext[_BEXT:].rstrip(b"\0")
    if history and not history.endswith(b"\n"):
        history += b"\r\n"
    return fixed + history + f"T={line}\r\n".encode()


_STREAMINFO, _SEEKTABLE, _COMMENT = 0, 3, 4
_KEPT = (2, _COMMENT, 5, 6)
"""Types of FLAC blocks that are copied: application, comments, cue sheet, pictures."""


class _Block(NamedTuple):
    """A metadata block of a FLAC file: its type, and its position without the header."""

    kind: int
    start: int
    end: int


def keep_flac(source: Path, output: Path) -> None:
    """Copy comments, pictures, cue sheet and application blocks from one FLAC file to another."""
    with source.open("rb") as old, output.open("r+b") as new:
        kept = [(old, block) for block in _blocks(old) if block.kind in _KEPT]
        own = _blocks(new)
        if not kept or not own:
            return
        comments = any(block.kind == _COMMENT for _, block in kept)
        wanted = (_STREAMINFO, _SEEKTABLE) if comments else (_STREAMINFO, _SEEKTABLE, _COMMENT)
        first = [(new, block) for block in own if block.kind in wanted]
        pieces: list[ByteRange | bytes] = []
        for k, (file, block) in enumerate(all_ := first + kept):
            last = 0x80 if k == len(all_) - 1 else 0
            size = block.end - block.start
            pieces.append(bytes([last | block.kind]) + size.to_bytes(3, "big"))
            if file is new:  # `splice` will overwrite it
                new.seek(block.start)
                pieces.append(new.read(size))
            else:
                pieces.append(ByteRange(file, block.start, block.end))
        splice(new, own[0].start - 4, own[-1].end, pieces)


def _blocks(file: BinaryIO) -> list[_Block]:
    """Return the metadata blocks of a FLAC file; [] if one is incomplete, or for other formats."""
    size = file.seek(0, os.SEEK_END)
    at = mp3.tag_end(Scan(file))
    file.seek(at)
    if file.read(4) != b"fLaC":
        return []
    found, last, at = [], False, at + 4
    while not last:
        file.seek(at)
        header = file.read(4)
        end = at + 4 + int.from_bytes(header[1:], "big")
        if len(header) < 4 or end > size:
            return []
        last = bool(header[0] & 0x80)
        found.append(_Block(header[0] & 0x7F, at + 4, end))
        at = end
    return found


def keep_mp3(source: Path, output: Path) -> None:
    """Copy the tags at the start (ID3v2) and at the end (APE, ID3v1) of an MP3 file to another."""
    with source.open("rb") as old, output.open("r+b") as new:
        size = old.seek(0, os.SEEK_END)
        head = min(mp3.tag_end(Scan(old)), size)
        end = new.seek(0, os.SEEK_END)
        splice(new, end, end, [ByteRange(old, max(head, _tail(old, size)), size)])
        splice(new, 0, 0, [ByteRange(old, 0, head)])


def _tail(file: BinaryIO, size: int) -> int:
    """Return the position where the tags at the end of an MP3 file begin."""
    at = size
    if size >= 128:
        file.seek(size - 128)
        at -= 128 if file.read(3) == b"TAG" else 0
    if at >= 32:
        file.seek(at - 32)
        footer = file.read(32)
        if footer.startswith(b"APETAGEX"):
            length = int.from_bytes(footer[12:16], "little")
            length += 32 if footer[23] & 0x80 else 0
            at = max(0, at - length)
    return at


_FAMILIES = {
    "WAV": ("WAV", "WAVEX", "RF64"),
    "MP4": ("MP4", "M4A", "MOV", "3GP"),
    "MATROSKA": ("MATROSKA", "WEBM"),
}
_NOTED = ("WAV", "AIFF", "MP3", "FLAC", "OGG", "MP4", "ASF", "MATROSKA")
"""Families that can store a line of history; in Matroska the muxer writes it."""

_LONGEST = 300
"""Maximum number of characters of a note on losses from a confined process."""


def family(format: str) -> str:
    """Return the name of the group of formats that store metadata in the same way."""
    return next((name for name, formats in _FAMILIES.items() if format in formats), format)


def check(format: str, history: str | None) -> None:
    """Raise an AlphaMFError if `history` is given and the format cannot store it."""
    if history is not None and family(format) not in _NOTED:
        raise AlphaMFError(f"`tag` is not supported for {format}: it has no history field")


def keep(
    source: Path | None, form: str, output: Path, format: str, history: str | None
) -> str | None:
    """Copy metadata of a file in format `form`, add any `history`; return a note on any losses."""
    kind = family(format)
    same = source is not None and family(form) == kind
    if kind in ("WAV", "AIFF"):
        original = source if same else None
        keep_chunks(original, output, "<" if kind == "WAV" else ">", history)
    if kind not in tags.KINDS:
        return None
    whole = same and kind in ("FLAC", "MP3")
    if source is not None and whole:
        (keep_flac if kind == "FLAC" else keep_mp3)(source, output)
    if (source is None or whole) and history is None:
        return None
    asked: dict[str, Any] = {"kind": kind, "same": same and not whole, "history": history}
    if source is not None and sandbox.is_enabled():
        with suppress(NoSandboxError):
            return _confined(source, output, {**asked, "copied": not whole})
    with output.open("r+b") as file:
        made, lost = tags.copied(None if whole else source, file, **asked)
        if made is not None:
            tags.save(made, file)
    return lost


def _confined(source: Path, output: Path, asked: dict[str, Any]) -> str | None:
    """Copy tags in a process that can use only the two files; return a note on losses, or None."""
    with source.open("rb") as old, output.open("r+b") as new:
        request = {"name": source.name, "ending": source.suffix, "tags": asked}
        process = ConfinedProcess(
            request, [old.fileno(), new.fileno()], "the tags cannot be written"
        )
        try:
            lost = process.facts(process.answer())
        except AlphaMFError:  # nothing is written before the first answer
            process.close()
            return "tags were not copied because they cannot be read within the limits"
        try:
            process.ask(sandbox.FINISH)
        finally:
            process.close()
    return printable_name(str(lost)[:_LONGEST]) if lost else None
