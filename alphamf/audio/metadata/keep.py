"""Choose which metadata of an input is copied to an output, depending on their formats."""

from __future__ import annotations

from pathlib import Path

from alphamf.audio.metadata import blocks, chunks, fields
from alphamf.errors import AlphaMFError

_FAMILIES = {
    "WAV": ("WAV", "WAVEX", "RF64"),
    "MP4": ("MP4", "M4A", "MOV", "3GP"),
    "MATROSKA": ("MATROSKA", "WEBM"),
}
_NOTED = ("WAV", "AIFF", "MP3", "FLAC", "OGG", "MP4", "ASF", "MATROSKA")
"""Families that can store a line of history; in Matroska the muxer writes it."""


def family(format: str) -> str:
    """Return the name of the group of formats that store metadata in the same way."""
    return next((name for name, formats in _FAMILIES.items() if format in formats), format)


def check(format: str, history: str | None) -> None:
    """Raise an AlphaMFError if the format cannot store a history line."""
    if history is None:
        return
    if family(format) not in _NOTED:
        raise AlphaMFError(f"`tag` is not supported for {format}: it has no history field")
    if family(format) not in ("WAV", "AIFF", "MATROSKA"):
        fields.require_mutagen()


def keep(
    source: Path | None, form: str, output: Path, format: str, history: str | None
) -> str | None:
    """Copy the metadata of an input to an output, and add a line to its history."""
    lost = None
    kind = family(format)
    same = source if source is not None and family(form) == kind else None
    if kind in ("WAV", "AIFF"):
        chunks.keep(same, output, "<" if kind == "WAV" else ">", history)
    elif kind == "FLAC" and same:
        blocks.keep_flac(same, output)
    elif kind == "MP3" and same:
        blocks.keep_mp3(same, output)
    elif kind in ("OGG", "MP4", "ASF") and same:
        lost = fields.keep(same, output, kind)
    if source is not None and not same:
        lost = fields.translate(source, output, kind)
    if history is not None and kind not in ("WAV", "AIFF", "MATROSKA"):
        fields.note(output, kind, history)
    return lost
