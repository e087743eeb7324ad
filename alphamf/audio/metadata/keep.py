"""Choose which metadata of an input is copied to an output, depending on their formats."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from alphamf.audio import tags
from alphamf.audio.decoder import helper, messages
from alphamf.audio.decoder.confined_process import ConfinedProcess, NoSandboxError
from alphamf.audio.metadata import blocks, chunks
from alphamf.audio.survey import open_sound
from alphamf.errors import AlphaMFError
from alphamf.tools.extras import install_packages
from alphamf.tools.files import printable_name

_FAMILIES = {
    "WAV": ("WAV", "WAVEX", "RF64"),
    "MP4": ("MP4", "M4A", "MOV", "3GP"),
    "MATROSKA": ("MATROSKA", "WEBM"),
}
_NOTED = ("WAV", "AIFF", "MP3", "FLAC", "OGG", "MP4", "ASF", "MATROSKA")
"""Families that can store a line of history; in Matroska the muxer writes it."""

_LONGEST = 300
"""Maximum number of characters of a note."""


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
        tags.require_mutagen()


def keep(
    source: Path | None, form: str, output: Path, format: str, history: str | None
) -> str | None:
    """Copy the metadata of an input to an output, and add a line to its history."""
    kind = family(format)
    same = source is not None and family(form) == kind
    if kind in ("WAV", "AIFF"):
        original = source if same else None
        chunks.keep(original, output, "<" if kind == "WAV" else ">", history)
    if kind not in tags.KINDS:
        return None
    whole = same and kind in ("FLAC", "MP3")
    if source is not None and whole:
        (blocks.keep_flac if kind == "FLAC" else blocks.keep_mp3)(source, output)
    if (source is None or whole) and history is None:
        return None
    if source is not None and find_spec("mutagen") is None:
        return _absent(source)
    asked: dict[str, Any] = {"kind": kind, "same": same and not whole, "history": history}
    if source is not None and helper.is_enabled():
        try:
            return _confined(source, output, {**asked, "copied": not whole})
        except NoSandboxError:
            pass
    with output.open("r+b") as file:
        made, lost = tags.copied(None if whole else source, file, **asked)
        if made is not None:
            tags.save(made, file)
    return lost


def _confined(source: Path, output: Path, asked: dict[str, Any]) -> str | None:
    """Copy tags in a confined process, which can use only the two files."""
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
            process.ask(messages.FINISH)
        finally:
            process.close()
    return printable_name(str(lost)[:_LONGEST]) if lost else None


def _absent(source: Path) -> str | None:
    """Return a note if a file has tags that only mutagen could copy, or None."""
    try:
        with open_sound(source, source.name) as file:
            found = file.has_tags
    except AlphaMFError:
        return None
    if not found:
        return None
    return f"tags were not copied because mutagen is not installed: {install_packages('mutagen')}"
