"""Copy tag fields and cover pictures through mutagen, where bytes cannot be copied."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from alphamf.audio.opening import has_tags
from alphamf.audio.survey import open_sound
from alphamf.errors import AlphaMFError
from alphamf.tools.extras import install_packages

_STALE = "----:com.apple.iTunes:iTunSMPB"
"""Fields with the numbers of samples that the input's encoder added before and after the sound."""

_COMMON = (
    "title", "artist", "album", "albumartist", "date", "genre", "tracknumber", "discnumber",
    "composer", "copyright", "comment", "description", "isrc", "language",
)  # fmt: skip
"""Fields that mean the same in all formats, by mutagen's easy names."""

_ASF = {
    "title": "Title", "artist": "Author", "album": "WM/AlbumTitle",
    "albumartist": "WM/AlbumArtist", "date": "WM/Year", "genre": "WM/Genre",
    "tracknumber": "WM/TrackNumber", "discnumber": "WM/PartOfSet", "composer": "WM/Composer",
    "copyright": "Copyright", "comment": "Description", "isrc": "WM/ISRC",
    "language": "WM/Language",
}  # fmt: skip
"""ASF's own names of these fields; mutagen has no easy names for them."""


def require_mutagen() -> None:
    """Raise an AlphaMFError if mutagen is not installed."""
    try:
        import mutagen  # noqa: F401
    except ImportError:
        raise AlphaMFError(f"`tag` needs mutagen: {install_packages('mutagen')}") from None


def keep(source: Path, output: Path, kind: str) -> str | None:
    """Copy all fields from one file to another of the same type."""
    old = _read(source, easy=False)
    if old is None or isinstance(old, str):
        return old
    import mutagen

    new: Any = mutagen.File(output)
    # Comments of Vorbis and of Opus are alike, and mutagen's types of the files are not.
    if type(old) is not type(new) and not isinstance(old.tags, list):
        return translate(source, output, kind)
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
    """Copy the common fields from one file to another of a different type."""
    old = _read(source, easy=True) if kind in _FIELDS else None
    if old is None or isinstance(old, str):
        return old
    new = _opened(output, kind, easy=True)
    if new.tags is None:
        new.add_tags()
    lost = []
    for name in _COMMON:
        try:
            values = [str(value) for value in old.tags[_key(old, name)]]
        except (KeyError, ValueError):  # it is not there, or has no name
            continue
        try:
            new.tags[_key(new, name)] = values
        except (KeyError, ValueError):  # such as words for the number of a track in MP4
            lost.append(name)
    new.save()
    return f"these tags were not copied: {', '.join(lost)}" if lost else None


def _key(file: Any, name: str) -> str:
    """Return the name of a common field in an open mutagen file."""
    from mutagen.asf import ASF

    return _ASF.get(name, name) if isinstance(file, ASF) else name


@cache
def _complete() -> None:
    """Register simple names for the common fields that mutagen does not name."""
    from mutagen.easyid3 import EasyID3
    from mutagen.easymp4 import EasyMP4Tags
    from mutagen.id3 import COMM

    def comments(tags: Any, _: str) -> list[str]:
        # With a description they are something else, such as levels for iTunes.
        own = [frame for frame in tags.getall("COMM") if frame.desc in ("", "ID3v1 Comment")]
        if not own:
            raise KeyError("comment")
        return [text for frame in own for text in frame.text]

    def comment(tags: Any, _: str, values: list[str]) -> None:
        tags.add(COMM(encoding=3, lang="XXX", desc="", text=values))

    EasyID3.RegisterKey("comment", comments, comment)
    EasyID3.RegisterTXXXKey("description", "DESCRIPTION")
    EasyMP4Tags.RegisterTextKey("composer", "\xa9wrt")
    for name in ("isrc", "language"):
        EasyMP4Tags.RegisterFreeformKey(name, name.upper())


_FIELDS = ("MP3", "FLAC", "OGG", "MP4", "ASF")


def _absent(source: Path) -> str | None:
    """Return a note if a file has tags that only mutagen could copy, or None."""
    try:
        with open_sound(source, source.name) as file:
            found = has_tags(file)
    except AlphaMFError:
        return None
    if not found:
        return None
    return f"tags were not copied because mutagen is not installed: {install_packages('mutagen')}"


def _read(path: Path, *, easy: bool) -> Any:
    """Read the tags of a file with mutagen: None if there are none, a note if it fails."""
    try:
        import mutagen
    except ImportError:
        return _absent(path)
    _complete()
    try:
        file = mutagen.File(path, easy=easy)
    except (mutagen.MutagenError, ValueError, LookupError, ArithmeticError, MemoryError) as error:
        return f"tags were not copied because mutagen cannot read them ({error})"
    return file if file is not None and file.tags else None


def note(output: Path, kind: str, line: str) -> None:
    """Add a line to the history field in the tags of a file."""
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
    """Open a file in mutagen as a given format, whatever the extension of its name."""
    import mutagen
    from mutagen import easymp4, flac, mp3, mp4

    if kind == "MP3":
        return (mp3.EasyMP3 if easy else mp3.MP3)(path)
    if kind == "MP4":
        return (easymp4.EasyMP4 if easy else mp4.MP4)(path)
    if kind == "FLAC":
        return flac.FLAC(path)
    return mutagen.File(path, easy=easy) if kind in ("OGG", "ASF") else None
