"""Find audio files: in a folder and its subfolders, or by a pattern."""

import errno
import glob
import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from alphamf.audio.formats import READ_SUFFIXES, SUFFIXES
from alphamf.errors import AlphaMFError
from alphamf.tools.files import is_special, printable_name, real_path, reason

RESULT = ".denoised"
"""End of the stem of a denoised file; searches skip such files."""


class InputFile(NamedTuple):
    """An audio file that was named, or found in a folder or by a pattern."""

    path: str  # Path by which it can be opened
    relative: str  # Its path within the folder that was searched; its base name if it was named
    searched: bool = True  # Whether it was found in a folder or by a pattern, not named itself


def expand(
    name: str, skipped: str | None = None, passed: set[str] | None = None
) -> Iterator[InputFile]:
    """Yield a named file, which need not exist, or recordings found in a folder or by a pattern.

    A search omits the folder `skipped` and hidden, special and denoised files. If it finds files,
    `passed` gets recordings of unknown extension. Errors, or no files, raise an AlphaMFError.
    """
    failed: list[OSError] = []
    if os.path.isdir(name):
        files = _walk(name, skipped, failed)
        sentence = f"{printable_name(name)} contains no audio files"
    elif not os.path.lexists(name) and glob.has_magic(name):
        files = _match(name, skipped, failed)
        sentence = f"{printable_name(name)} matches no audio files"
    else:
        _check_length(name)
        yield InputFile(name, os.path.basename(name), searched=False)
        return
    unread: set[str] = set()
    empty = True
    for item in files:
        if _has_known_ending(item.path):
            empty = False
            yield item
        else:
            unread.add(real_path(item.path))
    if passed is not None and not empty:
        passed |= unread
    if failed:
        raise AlphaMFError(
            "; ".join(
                f"{printable_name(each.filename)} cannot be listed: {reason(each)}"
                for each in failed
            )
        )
    if empty:
        raise AlphaMFError("; ".join(filter(None, (sentence, describe_skipped(unread)))))


def describe_skipped(paths: Collection[str]) -> str:
    """Return a sentence about recordings that were skipped; empty if there are none."""
    if not paths:
        return ""
    return f"skipped {len(paths)} with an unknown extension or none; to read one, name it"


def _check_length(name: str) -> None:
    """Raise an AlphaMFError if a name is longer than the system allows."""
    try:
        os.lstat(name)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            sentence = f"{printable_name(name)} cannot be opened: {reason(error)}"
            raise AlphaMFError(sentence) from None


def _walk(folder: str, skipped: str | None, failed: list[OSError]) -> Iterator[InputFile]:
    """Yield recordings below a folder, but not below `skipped` in it; append errors to `failed`."""
    # The folder for the outputs may lie in that of the inputs.
    searched = {real_path(each) for each in (folder, skipped) if each}
    for parent, folders, names in os.walk(folder, onerror=failed.append, followlinks=True):
        below, folders[:] = sorted(folders), []
        for name in below:
            real = real_path(os.path.join(parent, name))
            if not name.startswith(".") and real not in searched:
                searched.add(real)
                folders.append(name)
        for name in sorted(names):
            path = os.path.join(parent, name)
            if _is_recording(path):
                yield InputFile(path, os.path.relpath(path, folder))


def _match(pattern: str, skipped: str | None, failed: list[OSError]) -> Iterator[InputFile]:
    """Yield recordings that match a pattern, relative to the folder before its first wildcard.

    If no file matches, the recordings below the folders that match are yielded.
    """
    parts = Path(pattern).parts
    fixed = next(k for k, part in enumerate(parts) if glob.has_magic(part))
    root = os.path.join(*parts[:fixed]) if fixed else os.curdir
    skip = skipped and os.path.join(real_path(skipped), "")
    if skip and os.path.join(real_path(root), "").startswith(skip):
        skip = None  # the folder for the outputs holds all inputs
    found = [
        path
        for path in sorted(glob.glob(pattern, recursive=True))
        if not (skip and os.path.join(real_path(path), "").startswith(skip))
    ]
    folders = [path for path in found if os.path.isdir(path)]
    for path in folders if len(folders) == len(found) else ():
        for item in _walk(path, skipped, failed):
            yield InputFile(item.path, os.path.relpath(item.path, root))
    for path in found:
        if not os.path.isdir(path) and _is_recording(path):
            yield InputFile(path, os.path.relpath(path, root))


def _is_recording(path: str) -> bool:
    """Return whether a file is a recording by name or start; not if hidden, special or denoised."""
    name = os.path.basename(path)
    if name.startswith(".") or os.path.splitext(name)[0].endswith(RESULT) or is_special(path):
        return False
    if _has_known_ending(name):
        return True
    with suppress(OSError), open(path, "rb") as file:
        head = file.read(12)
        if head[4:8] == b"ftyp":
            return head[8:] not in _PICTURES
        return head.startswith(_STARTS) or head[8:] == b"WAVE"
    return False


_STARTS = b"RF64", b"fLaC", b"OggS", b"ID3", b"FORM", b".snd", b"caff", b"\x1a\x45\xdf\xa3"
_PICTURES = b"heic", b"heix", b"mif1", b"msf1", b"avif"


def _has_known_ending(path: str) -> bool:
    return os.path.splitext(path)[1].lower() in (*SUFFIXES, *READ_SUFFIXES)
