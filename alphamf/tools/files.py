"""File names in messages, and files that appear whole or not at all."""

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
    """Return a file name for soundfile, which by itself encodes only such as are UTF-8."""
    return os.fspath(path) if os.name == "nt" else os.fsencode(path)


def reason(error: BaseException) -> str:
    """Return what the system says went wrong, without number and file name."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


@contextmanager
def atomic(target: str | os.PathLike[str] | BinaryIO) -> Iterator[Path]:
    """Give a temporary file that becomes `target` when the block ends well, and goes otherwise.

    It lies beside the target and is renamed, so that nobody ever sees half a file. Its name is
    made from the target's: what a run leaves that was killed, the next one takes up, and of two
    runs at a time the second is told. A stream, a named pipe or a device gets a copy of it at the
    end instead.

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
    with _said(name, every=True):
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
        with _said(name):
            yield part
        with _said(name, every=True):
            with part.open("rb+") as file:
                os.fsync(file.fileno())
            part.replace(final)


@contextmanager
def _said(name: str, *, every: bool = False) -> Iterator[None]:
    """Say in one sentence that a disk is full or fails; or any error of the system."""
    try:
        yield
    except OSError as error:
        if not every and error.errno not in _DISK:
            raise
        raise AlphaMFError(f"{name} cannot be written: {reason(error)}") from error


@contextmanager
def _copied(stream: BinaryIO, name: str) -> Iterator[Path]:
    with (
        _said(f"a copy in {shown(tempfile.gettempdir())}"),
        tempfile.TemporaryDirectory(prefix="alphamf-") as folder,
    ):
        copy = Path(folder, "audio")
        yield copy
        with _said(name), copy.open("rb") as file:
            shutil.copyfileobj(file, stream, 1 << 20)
            stream.flush()


@contextmanager
def _claimed(final: Path, name: str) -> Iterator[Path]:
    """Make the temporary file of a target, which no other run may have, and remove what is left."""
    digest = hashlib.sha256(os.fsencode(final.name)).hexdigest()[:16]
    part = final.with_name(f".alphamf-{digest}.part")
    file = None
    while file is None:
        with _said(name, every=True):
            # Made like any new file, so that the result has the permissions that the user
            # expects. No link, which somebody else might have put there, is followed.
            file = os.open(part, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        try:
            locked = lock(file)
        except BlockingIOError as error:
            os.close(file)
            raise AlphaMFError(f"{name} is being written by another run") from error
        if not locked:
            os.close(file)
            file = None
            part.unlink(missing_ok=True)
            part = part.with_name(f".alphamf-{secrets.token_hex(8)}.part")
            part.touch()
            break
        if _is(part, file):
            os.truncate(file, 0)
        else:  # the run that had it has renamed it meanwhile
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


def lock(file: int) -> bool:
    """Lock a file or a folder until its descriptor is closed; say whether that can be done here.

    Raises
    ------
    BlockingIOError
        Another run has it.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:  # not every network drive has locks
        return False
    return True


def _is(path: Path, file: int) -> bool:
    """Whether a path leads to an open file."""
    try:
        return os.path.samestat(path.stat(follow_symlinks=False), os.fstat(file))
    except FileNotFoundError:
        return False
