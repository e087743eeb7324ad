"""Copy metadata blocks of FLAC files and tags of MP3 files byte for byte."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, NamedTuple

from alphamf.audio import mp3
from alphamf.audio.file_pieces import Scan
from alphamf.audio.metadata.pieces import ByteRange, splice

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
            if file is new:  # its place is about to be written over
                new.seek(block.start)
                pieces.append(new.read(size))
            else:
                pieces.append(ByteRange(file, block.start, block.end))
        splice(new, own[0].start - 4, own[-1].end, pieces)


def _blocks(file: BinaryIO) -> list[_Block]:
    """Return the metadata blocks of a FLAC file; empty if the file is incomplete."""
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
