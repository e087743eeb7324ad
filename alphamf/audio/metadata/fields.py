"""Fields of tags and cover pictures through mutagen, where bytes cannot be copied."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alphamf.audio.media.kinds import EXTRA
from alphamf.errors import AlphaMFError
from alphamf.tools.files import system_name

_STALE = "----:com.apple.iTunes:iTunSMPB"
"""How many samples the encoder of the input put before and after the sound."""

_COMMON = (
    "title", "artist", "album", "albumartist", "date", "genre", "tracknumber", "discnumber",
    "composer", "copyright", "comment", "description", "isrc", "language",
)  # fmt: skip
"""Fields that mean the same in all formats, by mutagen's easy names."""


def need() -> None:
    """Refuse to go on without mutagen.

    Raises
    ------
    AlphaMFError
        It is not installed.
    """
    try:
        import mutagen  # noqa: F401
    except ImportError:
        raise AlphaMFError(f"--tag needs mutagen: {EXTRA}") from None


def keep(source: Path, output: Path) -> str | None:
    """Copy all fields from one file to another of the same kind: Ogg, MP4 or ASF.

    Returns
    -------
    str or None
        A sentence where they could not be read.
    """
    old = _read(source, easy=False)
    if old is None or isinstance(old, str):
        return old
    import mutagen

    new: Any = mutagen.File(output)
    if type(old) is not type(new):
        return None
    if new.tags is None:
        new.add_tags()
    new.tags.clear()
    if isinstance(old.tags, list):  # in their order, and more than once where they are
        new.tags.extend(old.tags)
    else:
        new.tags.update({key: old.tags[key] for key in old.tags if key != _STALE})
    new.save()
    return None


def translate(source: Path, output: Path, kind: str) -> str | None:
    """Copy the common fields from a file to another of another kind.

    Parameters
    ----------
    source
        The input.
    output, kind
        The output, and the family of its format; MP3, FLAC, OGG, MP4 and ASF get fields.

    Returns
    -------
    str or None
        A sentence where they could not be read.
    """
    old = _read(source, easy=True) if kind in _FIELDS else None
    if old is None or isinstance(old, str):
        return old
    new = _opened(output, kind, easy=True)
    if new.tags is None:
        new.add_tags()
    for name in _COMMON:
        try:
            new.tags[name] = old.tags[name]
        except (KeyError, ValueError):  # a name that one of the two does not know
            continue
    new.save()
    return None


_FIELDS = ("MP3", "FLAC", "OGG", "MP4", "ASF")


def _absent(source: Path) -> str | None:
    """Return a sentence where a file has tags that only mutagen could copy."""
    import soundfile

    try:
        with soundfile.SoundFile(system_name(source)) as file:
            found = set(file.copy_metadata()) - {"software"}
    except (soundfile.LibsndfileError, TypeError):
        return None
    return f"tags are not kept without mutagen: {EXTRA}" if found else None


def _read(path: Path, *, easy: bool) -> Any:
    """Return what mutagen reads of a file, None without tags, or a sentence where it fails."""
    try:
        import mutagen
    except ImportError:
        return _absent(path)
    try:
        file = mutagen.File(path, easy=easy)
    except (mutagen.MutagenError, ValueError, LookupError, ArithmeticError, MemoryError) as error:
        return f"tags are not kept: mutagen cannot read them ({error})"
    return file if file is not None and file.tags else None


def note(output: Path, kind: str, line: str) -> None:
    """Add a line to the history in the tags of a file.

    Parameters
    ----------
    output, kind
        The file, and the family of its format: MP3, FLAC, OGG, MP4 or ASF.
    line
        The line.
    """
    from mutagen.id3 import TXXX

    file = _opened(output, kind, easy=False)
    if file.tags is None:
        file.add_tags()
    if kind == "MP3":
        frame = file.tags.get("TXXX:HISTORY") or TXXX(encoding=3, desc="HISTORY", text=[])
        frame.text.append(line)
        file.tags.add(frame)
        third = file.tags.version[:2] == (2, 3)
        if third:
            file.tags.update_to_v23()
        file.save(v2_version=3 if third else 4)
        return
    key = "----:com.apple.iTunes:HISTORY" if kind == "MP4" else "HISTORY"
    file.tags[key] = [*file.tags.get(key, []), line.encode() if kind == "MP4" else line]
    file.save()


def _opened(path: Path, kind: str, *, easy: bool) -> Any:
    """Open a file in mutagen, which would go by the ending of a name that it does not have."""
    import mutagen
    from mutagen import easymp4, flac, mp3, mp4

    if kind == "MP3":
        return (mp3.EasyMP3 if easy else mp3.MP3)(path)
    if kind == "MP4":
        return (easymp4.EasyMP4 if easy else mp4.MP4)(path)
    if kind == "FLAC":
        return flac.FLAC(path)
    return mutagen.File(path, easy=easy) if kind in ("OGG", "ASF") else None
