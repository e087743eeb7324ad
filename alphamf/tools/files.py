"""File names in messages, files that are written whole or not at all, and locks."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from alphamf.errors import AlphaMFError

_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


def shown(path: str | os.PathLike[str]) -> str:
    """Return a file name on one line: characters that do not print are escaped."""
    text = os.fspath(path)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def system_name(path: str | os.PathLike[str]) -> str | bytes:
    """Return a file name for soundfile, which itself encodes only names that are UTF-8."""
    return os.fspath(path) if os.name == "nt" else os.fsencode(path)


def reason(error: BaseException) -> str:
    """Return the system's message of an error, without number and file name."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


@contextmanager
def atomic(target: str | os.PathLike[str] | BinaryIO) -> Iterator[Path]:
    """Yield a temporary file; rename it to `target` on success, delete it on error.

    It lies in the folder of the target, under a name made from the target's, and is locked: a file
    that a killed run left is used again, and a concurrent second writer gets an AlphaMFError.

    Parameters
    ----------
    target
        The file. Where it is a stream, a named pipe or a device, the temporary file is copied to
        it at the end.

    Raises
    ------
    AlphaMFError
        The folder cannot be written to, the disk is full, or another run writes the same file.
    """
    if not isinstance(target, (str, os.PathLike)):
        with _copied(target, "standard output") as copy:
            yield copy
        return
    name = shown(target)
    final = Path(os.path.realpath(target))
    with _disk_errors(name, every=True):
        try:
            regular = stat.S_ISREG(final.stat().st_mode)
        except FileNotFoundError:
            regular = True
        # Before the work: a name that is too long for the folder, a folder of that name.
        stream = None if regular else final.open("wb")
    if stream is not None:
        with stream, _copied(stream, name) as copy:
            yield copy
        return
    with _claimed(final, name) as part:
        with _disk_errors(name):
            yield part
        with _disk_errors(name, every=True):
            with part.open("rb+") as file:
                os.fsync(file.fileno())
            part.replace(final)


@contextmanager
def _disk_errors(name: str, *, every: bool = False) -> Iterator[None]:
    """Turn a full or failing disk, or every error of the system, into an AlphaMFError."""
    try:
        yield
    except OSError as error:
        if not every and error.errno not in _DISK:
            raise
        raise AlphaMFError(f"{name} cannot be written: {reason(error)}") from error


@contextmanager
def _copied(stream: BinaryIO, name: str) -> Iterator[Path]:
    """Yield a temporary file that is copied to a stream at the end."""
    with (
        _disk_errors(f"a copy in {shown(tempfile.gettempdir())}"),
        tempfile.TemporaryDirectory(prefix="alphamf-") as folder,
    ):
        copy = Path(folder, "audio")
        yield copy
        with _disk_errors(name), copy.open("rb") as file:
            shutil.copyfileobj(file, stream, 1 << 20)
            stream.flush()


@contextmanager
def _claimed(final: Path, name: str) -> Iterator[Path]:
    """Make and lock the temporary file of a target, and delete it where it was not renamed."""
    digest = hashlib.sha256(os.fsencode(final.name)).hexdigest()[:16]
    part = final.with_name(f".alphamf-{digest}.part")
    file = None
    while file is None:
        with _disk_errors(name, every=True):
            # Made like any new file, so that the result has the permissions that the user
            # expects. No link, which somebody else might have put there, is followed.
            file = os.open(part, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        try:
            has_locks = lock(file, f"{name} is being written by another run")
        except AlphaMFError:
            os.close(file)
            raise
        if not has_locks:
            os.close(file)
            file = None
            part.unlink(missing_ok=True)
            part = part.with_name(f".alphamf-{secrets.token_hex(8)}.part")
            part.touch()
            break
        if _is(part, file):
            os.truncate(file, 0)
        else:  # another run has renamed it meanwhile
            os.close(file)
            file = None
    try:
        yield part
    finally:
        with suppress(OSError):
            if file is None or _is(part, file):
                part.unlink()
        if file is not None:
            os.close(file)


@contextmanager
def exclusive(path: Path, sentence: str, *, folder: bool = False) -> Iterator[None]:
    """Hold the lock of a file, which is made if need be, or of a folder.

    Parameters
    ----------
    path
        The file or folder; a folder must exist.
    sentence
        Error message where another run holds the lock.
    folder
        Whether it is a folder.

    Raises
    ------
    AlphaMFError
        Another run holds the lock, or the file cannot be made.
    """
    if folder and os.name == "nt":  # where folders cannot be opened
        yield
        return
    with _disk_errors(shown(path), every=True):
        file = os.open(path, os.O_RDONLY if folder else os.O_RDWR | os.O_CREAT, 0o666)
    try:
        lock(file, sentence)
        yield
    finally:
        os.close(file)


def lock(file: int, sentence: str) -> bool:
    """Lock a file or a folder until its descriptor is closed.

    Returns
    -------
    bool
        Whether the system has locks for this file.

    Raises
    ------
    AlphaMFError
        Another run holds the lock; `sentence` is the message.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise AlphaMFError(sentence) from error
    except OSError:  # not every network drive has locks
        return False
    return True


def _is(path: Path, file: int) -> bool:
    """Whether a path leads to an open file."""
    try:
        return os.path.samestat(path.stat(follow_symlinks=False), os.fstat(file))
    except FileNotFoundError:
        return False
