"""Copy tag fields and cover pictures through mutagen, where bytes cannot be copied."""

import codecs
import io
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, BinaryIO

from alphamf.audio.media.kinds import Openable
from alphamf.errors import AlphaMFError

_STALE = "----:com.apple.iTunes:iTunSMPB"
"""Field with the numbers of samples that the input's encoder added before and after the sound."""

_ASF = {
    "title": "Title", "artist": "Author", "album": "WM/AlbumTitle",
    "albumartist": "WM/AlbumArtist", "date": "WM/Year", "genre": "WM/Genre",
    "tracknumber": "WM/TrackNumber", "discnumber": "WM/PartOfSet", "composer": "WM/Composer",
    "copyright": "Copyright", "comment": "Description",
    "description": "description", "isrc": "WM/ISRC", "language": "WM/Language",
}  # fmt: skip
"""Fields that mean the same in all formats, by mutagen's easy names, and ASF's names of them."""

_LONGEST = 1 << 20
"""Maximum number of characters of a field that is copied into another format."""

_RATIO = 16
"""Maximum factor by which a compressed ID3 frame may grow; for text, ten suffices."""

_SECONDS = 5
"""Maximum processor time, in seconds, for reading the tags of a file, and for writing them."""

KINDS = ("MP3", "FLAC", "OGG", "MP4", "ASF")
"""Families of formats whose tags mutagen writes."""


def copied(
    source: Openable | None, output: BinaryIO, kind: str, *, same: bool, history: str | None
) -> tuple[Any, str | None]:
    """Return the output's changed tags, to be saved, and a note on what is not copied, or None.

    The tags are None if nothing has to be written. `source` is None if only the history changes;
    `same`: whether it has the output's kind of tags, so that all of its fields are copied.
    """
    try:
        prepare()
    except ImportError:  # a distribution may omit it, as it is under the GPL
        return None, "tags were not copied because mutagen is not installed"
    _zlib.has_refused = False
    try:
        with _limited_time():
            made, lost = _copied(source, output, kind, same=same, history=history)
    except _OverdueError:
        return None, "tags were not copied because they cannot be read within the limits"
    if _zlib.has_refused:
        note = "a compressed tag that would become too large was not copied"
        lost = f"{lost}; {note}" if lost else note
    return made, lost


def _copied(
    source: Openable | None, output: BinaryIO, kind: str, *, same: bool, history: str | None
) -> tuple[Any, str | None]:
    try:
        file = _opened(output, kind, easy=not same)
    except Exception as error:  # where tags were copied byte for byte
        return None, f"the history was not written: mutagen cannot read the tags ({error!s:.100})"
    if file.tags is None:
        file.add_tags()
    changed, lost = history is not None, None
    if source is not None:
        old = _read(source, kind if same else "", easy=not same)
        if isinstance(old, str):
            lost = old
        elif old is not None:
            changed = True
            lost = _replace(old, file) if same else _translate(old, file)
    if history is not None:
        mp4 = kind == "MP4" and same
        key = "----:com.apple.iTunes:HISTORY" if mp4 else "HISTORY"
        before = file.tags[key] if key in file.tags else []
        file.tags[key] = [*before, history.encode() if mp4 else history]
    return file if changed else None, lost


def save(file: Any, output: BinaryIO) -> None:
    """Write tags to the file that they were read from; raise an AlphaMFError if this fails."""
    output.seek(0)
    third = getattr(file.tags, "version", (0, 0))[:2] == (2, 3)
    try:
        with _limited_time():
            file.save(output, **({"v2_version": 3} if third else {}))
    except (Exception, _OverdueError) as error:
        raise AlphaMFError(f"the tags cannot be written: {error!s:.100}") from error


def _replace(old: Any, new: Any) -> str | None:
    """Copy all fields but `_STALE` between files of equal type; return a note if types differ."""
    # Comments of Vorbis and of Opus are alike, and mutagen's types of the files are not.
    if type(old) is not type(new) and not isinstance(old.tags, list):
        return "tags were not copied because the file has them of another kind"
    new.tags.clear()
    if isinstance(old.tags, list):  # in their order, and more than once where they are
        new.tags.extend(old.tags)
    else:
        new.tags.update({key: old.tags[key] for key in old.tags if key != _STALE})
    return None


def _translate(old: Any, new: Any) -> str | None:
    """Copy the common fields between files of different types; return a note on those lost."""
    lost = []
    for name in _ASF:
        try:
            values = [str(value) for value in old.tags[_key(old, name)]]
        except (KeyError, ValueError):  # it is not there, or has no name
            continue
        try:
            if sum(map(len, values)) > _LONGEST:
                raise ValueError
            new.tags[_key(new, name)] = values
        except (KeyError, ValueError):  # such as words for the number of a track in MP4
            lost.append(name)
    return f"these tags were not copied: {', '.join(lost)}" if lost else None


def _key(file: Any, name: str) -> str:
    """Return the name of a common field in an open mutagen file."""
    from mutagen.asf import ASF

    return _ASF.get(name, name) if isinstance(file, ASF) else name


def _read(source: Openable, kind: str, *, easy: bool) -> Any:
    """Return a file that mutagen has read; None if it has no tags, a note if reading fails."""
    import mutagen
    from mutagen.mp4 import MP4

    try:
        with source.open("rb") as data:
            file = MP4(data) if kind == "MP4" else mutagen.File(data, easy=easy)
    except Exception as error:  # mutagen raises whatever a damaged file leads to
        return f"tags were not copied because mutagen cannot read them ({error!s:.100})"
    return file if file is not None and file.tags else None


def _opened(file: BinaryIO, kind: str, *, easy: bool) -> Any:
    """Open a file in mutagen; MP3, MP4 and FLAC files as such, whatever their names."""
    import mutagen
    from mutagen import easymp4, flac, mp3, mp4

    classes = {"MP3": mp3.EasyMP3, "MP4": easymp4.EasyMP4 if easy else mp4.MP4, "FLAC": flac.FLAC}
    return classes.get(kind, mutagen.File)(file)


class _OverdueError(BaseException):
    """Error if mutagen takes too long; not an Exception, because mutagen catches those."""

    def __str__(self) -> str:
        return f"it took more than {_SECONDS} s"


@contextmanager
def _limited_time() -> Iterator[None]:
    """Raise an _OverdueError in this block of Python code once it has computed for `_SECONDS`.

    Mutagen copies the rest of a tag at each field, so that many short fields take long.
    """
    before, last = sys.getprofile(), time.thread_time() + _SECONDS

    def watch(*_: object) -> None:
        if time.thread_time() > last:
            raise _OverdueError

    sys.setprofile(watch)  # which is called at every call of a function
    try:
        yield
    finally:
        sys.setprofile(before)


class _BoundedZlib(threading.local):
    """Replacement of zlib in mutagen that refuses frames that would become many times larger."""

    error = zlib.error
    has_refused = False

    def decompress(self, data: bytes) -> bytes:
        """Return a frame, decompressed; raise a `zlib.error` if it would become too large."""
        stream = zlib.decompressobj()
        found = stream.decompress(data, _RATIO * len(data))
        if stream.unconsumed_tail:
            self.has_refused = True
            raise zlib.error("the frame is too large")
        return found


_zlib = _BoundedZlib()


@cache
def prepare() -> None:
    """Load all of mutagen, register common fields that it lacks, and limit its decompression."""
    import mutagen
    from mutagen.easyid3 import EasyID3
    from mutagen.easymp4 import EasyMP4Tags
    from mutagen.id3 import COMM, _frames

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
    EasyID3.RegisterTXXXKey("history", "HISTORY")
    EasyMP4Tags.RegisterTextKey("composer", "\xa9wrt")
    for name in ("isrc", "language", "history"):
        EasyMP4Tags.RegisterFreeformKey(name, name.upper())
    _frames.zlib = _zlib
    mutagen.File(io.BytesIO(bytes(128)), easy=True)
    for encoding in ("ascii", "latin1", "iso8859-1", "utf-8", "utf-16", "utf-16-le", "utf-16-be"):
        codecs.lookup(encoding)
