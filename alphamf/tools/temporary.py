"""Temporary files: created, locked, written through a descriptor, and renamed to the target."""

import errno
import hashlib
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from alphamf.errors import AlphaMFError

_HERE, _NO_REPLACE, _EXCLUSIVE = -100, 1, 4
"""Arguments of Linux's renameat2 (current directory, flag), and flag of macOS's renamex_np."""

_FAR = 0x7FFF_FFF0
"""Offset of the byte that is locked on Windows, where offsets have 32 bits."""


@contextmanager
def claim_temporary(final: Path, sentence: str, mode: int) -> Iterator[tuple[Path, int | None]]:
    """Yield a file and descriptor (Windows: None), locked if possible; delete it if not renamed."""
    if sys.platform == "win32":
        with _claimed_by_name(final, sentence, mode) as part:
            yield part, None
        return
    part, file = _locked(final, sentence, mode)
    try:
        yield part, file
    finally:
        with suppress(OSError):
            if _is(part, file):
                part.unlink()
        os.close(file)


@contextmanager
def _claimed_by_name(final: Path, sentence: str, mode: int) -> Iterator[Path]:
    """Yield the temporary file of a target, closed, while a separate lock file is beside it."""
    with hold_lock(_hidden(final, ".lock"), sentence) as has_locks:
        part = _hidden(final, ".part") if has_locks else _random(final)
        part.unlink(missing_ok=True)  # what a killed run left
        os.close(_create(part, mode))
        try:
            yield part
        finally:
            with suppress(OSError):
                part.unlink()


@contextmanager
def hold_lock(path: Path, sentence: str) -> Iterator[bool]:
    """Create and lock a file, yield whether its drive has locks, and delete the file at the end."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    try:
        has_locks = lock(file, sentence)
    except AlphaMFError:
        os.close(file)
        raise
    try:
        yield has_locks
    finally:
        os.close(file)
        with suppress(OSError):
            path.unlink()


def descriptor_path(part: Path, file: int | None) -> Path:
    """Return a path that refers to an open file by descriptor, or `part` if there is none."""
    path = Path(f"/proc/self/fd/{file}")
    try:
        return path if file is not None and _is(path, file, follow=True) else part
    except OSError:
        return part


def publish(part: Path, file: int | None, final: Path, *, replace: bool = True) -> None:
    """Flush a file and rename it to `final`; without `replace`, raise FileExistsError if taken."""
    if file is None:
        with part.open("rb+") as again:
            os.fsync(again.fileno())
        (os.replace if replace else os.rename)(part, final)  # which replaces nothing on Windows
        return
    os.fsync(file)
    if not _is(part, file):
        raise OSError(errno.ESTALE, "another process has removed its temporary file")
    if replace:
        part.replace(final)
    else:
        _rename_new(part, final)
    sync_folder(final.parent)


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to disk."""
    try:
        file = os.open(folder, os.O_RDONLY)
    except PermissionError:  # one that may be written to and not listed; any on Windows
        return
    try:
        os.fsync(file)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # not every network drive can
            raise
    finally:
        os.close(file)


def is_taken(path: Path) -> bool:
    """Return whether a path exists, other than as an empty file, which is no result."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    return not stat.S_ISREG(found.st_mode) or found.st_size > 0


def _rename_new(part: Path, final: Path) -> None:
    """Rename a file to a name that is not taken, or raise FileExistsError."""
    for rename in (_rename_exclusively, os.link):
        try:
            rename(part, final)
        except FileExistsError:
            break
        except OSError:  # not every file system can do it: FAT has no hard links
            continue
        if rename is os.link:
            with suppress(OSError):  # else `claim_temporary` tries it again
                part.unlink()
        return
    # No file stands for the name meanwhile: a kill would leave it as if it were a result.
    if is_taken(final):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(final))
    part.replace(final)


def _rename_exclusively(part: Path, final: Path) -> None:
    """Rename a file without replacing another; raise OSError if one exists or this fails."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    old, new = os.fsencode(part), os.fsencode(final)
    if hasattr(libc, "renameat2"):
        failed = libc.renameat2(_HERE, old, _HERE, new, _NO_REPLACE)
    elif hasattr(libc, "renamex_np"):
        failed = libc.renamex_np(old, new, _EXCLUSIVE)
    else:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    if failed:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(final))


def lock(file: int, sentence: str) -> bool:
    """Lock an open file, or raise an AlphaMFError if it is locked; return False without locks."""
    try:
        _lock(file)
    except _Locked as error:
        raise AlphaMFError(sentence) from error
    except OSError:  # not every network drive has locks
        return False
    return True


if sys.platform == "win32":
    _Locked = PermissionError

    def _lock(file: int) -> None:
        import msvcrt

        # Far behind the end, as others may neither read nor write what is locked.
        os.lseek(file, _FAR, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
else:
    _Locked = BlockingIOError

    def _lock(file: int) -> None:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _locked(final: Path, sentence: str, mode: int) -> tuple[Path, int]:
    """Return path and descriptor of a new locked file, or of an unlocked one with a random name."""
    part = _hidden(final, ".part")
    while True:
        try:
            file = _create(part, mode)
        except FileExistsError:
            if _clear(part, sentence):
                continue
            break
        try:
            has_locks = lock(file, sentence)
        except AlphaMFError:
            os.close(file)
            raise
        if has_locks and _is(part, file):
            return part, file
        os.close(file)
        if not has_locks:
            part.unlink(missing_ok=True)
            break
    part = _random(final)
    return part, _create(part, mode)


def _hidden(final: Path, suffix: str) -> Path:
    """Return the path of a hidden file that belongs to a target."""
    digest = hashlib.sha256(os.fsencode(final.name)).hexdigest()[:16]
    return final.with_name(f".alphamf-{digest}{suffix}")


def _random(final: Path) -> Path:
    return final.with_name(f".alphamf-{secrets.token_hex(8)}.part")


def _create(part: Path, mode: int) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    return os.open(part, flags, mode | 0o600)


def _clear(part: Path, sentence: str) -> bool:
    """Remove a killed run's file; raise an AlphaMFError if locked; return whether the name is free.

    Nothing is written to an existing path, which may be a link or another user's file.
    """
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        if not stat.S_ISREG(part.stat(follow_symlinks=False).st_mode):
            return False
        try:
            file = os.open(part, os.O_RDWR | flags)
        except PermissionError:
            file = os.open(part, os.O_RDONLY | flags)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        if not lock(file, sentence):
            return False  # a run that goes on may write it
        if _is(part, file):  # otherwise another run has renamed it meanwhile
            part.unlink()
    except OSError:  # another user's file in a folder such as /tmp
        return False
    finally:
        os.close(file)
    return True


def _is(path: Path, file: int, *, follow: bool = False) -> bool:
    """Return whether a path refers to an open file."""
    try:
        return os.path.samestat(path.stat(follow_symlinks=follow), os.fstat(file))
    except FileNotFoundError:
        return False
