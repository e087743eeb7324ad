"""Identify, name, lock and create files, and write outputs completely or not at all."""

import errno
import os
import shutil
import stat
import sys
import tempfile
import unicodedata
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, NamedTuple

from alphamf.errors import AlphaMFError
from alphamf.tools.temporary import (
    claim_temporary,
    descriptor_path,
    hold_lock,
    is_taken,
    lock,
    publish,
    sync_folder,
)


class Identity(NamedTuple):
    """The identity of a file that exists or could be created, however its path is written."""

    device: int  # Number of the device, the same under each mount
    folder: int  # Inode number of the nearest folder that exists
    name: str  # The rest of the path, in lower case where that folder ignores case


def current_folder() -> str:
    """Return the current folder's path; raise an AlphaMFError if it was removed."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise AlphaMFError("the current folder was removed; change to another one") from None


def real_path(path: str | os.PathLike[str]) -> str:
    """Return a path with links resolved, or the path itself if the current folder is gone."""
    try:
        return os.path.realpath(path)
    except FileNotFoundError:
        return os.fspath(path)


def identify(path: str | os.PathLike[str]) -> Identity:
    """Return the identity of the file that a path leads to; links are followed."""
    folder, name = os.path.split(real_path(path))
    while True:
        try:
            found = os.stat(folder or os.curdir)
            break
        except OSError:
            above, last = os.path.split(folder)
            if not last:  # the current folder was removed
                return Identity(0, 0, os.path.join(folder, name))
            folder, name = above, os.path.join(last, name)
    if _ignores_case(folder, found.st_dev, found.st_ino):
        name = unicodedata.normalize("NFC", name).casefold()
    return Identity(found.st_dev, found.st_ino, name)


@lru_cache(maxsize=1024)
def _ignores_case(folder: str, device: int, number: int) -> bool:
    """Return whether a folder ignores case, tested with a name in it or in a folder above it."""
    for place in (Path(folder), *Path(folder).parents):
        try:
            names = set(os.listdir(place))
        except OSError:
            continue
        for name in names:
            other = name.swapcase()
            if name.isascii() and other not in names:
                return os.path.lexists(place / other)
    return False


def lies_in(path: str | os.PathLike[str], folder: str | os.PathLike[str]) -> bool:
    """Return whether a path leads into a folder, however both are written."""
    try:
        wanted = os.stat(folder)
    except OSError:
        return False
    for place in Path(real_path(path)).parents:
        with suppress(OSError):
            if os.path.samestat(os.stat(place), wanted):
                return True
    return False


_TRIES = 100
"""Number of new folders to try: another process may delete one before it is locked."""


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Yield a new folder that only the current user can read; delete it at the end if possible.

    Folders of this user's killed processes, which are not locked, are deleted first.
    """
    _clear(prefix)
    with ExitStack() as stack:
        for _ in range(_TRIES):
            if (folder := _locked_folder(prefix, stack)) is not None:
                break
        else:
            raise AlphaMFError("cannot create a temporary folder that no other process deletes")
        yield folder


def _locked_folder(prefix: str, stack: ExitStack) -> Path | None:
    """Return a new locked folder, which the stack deletes; None if another process deleted it."""
    with system_errors("cannot create a temporary folder"):
        folder = Path(tempfile.mkdtemp(prefix=prefix))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    try:
        stack.enter_context(exclusive_lock(folder, "", folder=True))
    except AlphaMFError:
        return None
    return folder if folder.exists() else None


def _clear(prefix: str) -> None:
    """Delete this user's folders whose name starts with `prefix` and that no process has locked."""
    try:
        place = Path(tempfile.gettempdir())
        left = [place / name for name in os.listdir(place) if name.startswith(prefix)]
    except OSError:
        return
    for folder in left:
        with suppress(AlphaMFError, OSError):
            found = folder.lstat()
            own = not hasattr(os, "getuid") or found.st_uid == os.getuid()
            if own and stat.S_ISDIR(found.st_mode):
                with exclusive_lock(folder, "", folder=True) as locked:
                    if locked:
                        shutil.rmtree(folder, ignore_errors=True)


_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)

MOST_NAME = 600  # Maximum number of a file name's characters that a message shows


def printable(text: str) -> str:
    """Return a text with unprintable characters escaped, so that it is one line of a message."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def printable_name(path: str | os.PathLike[str]) -> str:
    """Return a file name for messages: on one line, and without its middle if it is very long."""
    text = printable(os.fspath(path)) or "''"
    half = MOST_NAME // 2
    return text if len(text) <= MOST_NAME else f"{text[:half]}...{text[-half:]}"


def reason(error: BaseException) -> str:
    """Return an error's message; for an OSError, the system's, without number and file name."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


@contextmanager
def file_errors(
    path: str | os.PathLike[str], verb: str, *others: type[Exception]
) -> Iterator[None]:
    """Convert OSError and `others` to an AlphaMFError such as "a.wav cannot be read: ..."."""
    with system_errors(f"{printable_name(path)} cannot be {verb}", *others):
        yield


@contextmanager
def system_errors(sentence: str, *others: type[Exception]) -> Iterator[None]:
    """Convert OSError and `others` to an AlphaMFError: `sentence`, and the system's message."""
    expected: tuple[type[Exception], ...] = OSError, *others
    try:
        yield
    except expected as error:
        raise AlphaMFError(f"{sentence}: {reason(error)}") from error


@contextmanager
def atomic_file(
    target: str | os.PathLike[str] | BinaryIO,
    *,
    mode: int = 0o666,
    within: str | os.PathLike[str] | None = None,
    replace: bool = True,
) -> Iterator[Path]:
    """Yield a temporary file; rename it to `target` on success, delete it on error.

    The file is in the folder of the target, with a name derived from the target's, and is locked: a
    file of a killed run is replaced, and a concurrent second writer gets an AlphaMFError. On Linux,
    the path is that of the open file. A stream, pipe or device gets a copy at the end. `within`: as
    in `refuse_links`. Without `replace`, a target with content is an error.
    """
    if not isinstance(target, (str, os.PathLike)):
        with _copied(target, "standard output") as copy:
            yield copy
        return
    name = printable_name(target)
    final = Path(real_path(target))
    if within is not None:
        refuse_links(target, within)
        # Not through a link that takes the place of the file from now on.
        final = Path(real_path(os.path.dirname(target) or os.curdir), os.path.basename(target))
    with file_errors(name, "written"):
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
    with ExitStack() as stack:
        with file_errors(name, "written"):
            part, file = stack.enter_context(
                claim_temporary(final, f"{name} is being written by another run", mode)
            )
        if not replace and is_taken(final):
            raise exists_error(target)
        with _disk_errors(name):
            yield descriptor_path(part, file)
        with file_errors(name, "written"):
            try:
                publish(part, file, final, replace=replace)
            except FileExistsError as error:
                raise exists_error(target) from error


def exists_error(path: str | os.PathLike[str]) -> AlphaMFError:
    """Return the error for an output that exists and may not be replaced."""
    return AlphaMFError(f"{printable_name(path)} already exists; use `overwrite` to replace it")


def refuse_links(path: str | os.PathLike[str], within: str | os.PathLike[str]) -> None:
    """Raise an AlphaMFError if a part of a path below `within` is a link, a pipe or a device."""
    place = Path(within)
    for part in Path(path).relative_to(place).parts:
        place /= part
        with file_errors(place, "written"):
            try:
                mode = place.lstat().st_mode
            except (FileNotFoundError, NotADirectoryError):
                return
        if stat.S_ISLNK(mode):
            raise AlphaMFError(
                f"{printable_name(place)} is a link; outputs are not written through links, so "
                "remove it"
            )
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise AlphaMFError(f"{printable_name(place)} is a pipe or a device; remove it")


def temporary_place() -> str:
    """Return, for messages, the folder for temporary files, or "a temporary folder" without one."""
    with suppress(OSError):
        return printable_name(tempfile.gettempdir())
    return "a temporary folder"


def make_folder(path: str | os.PathLike[str], within: str | os.PathLike[str] | None = None) -> None:
    """Create the folder of a file and flush its name to disk; see `refuse_links` for `within`."""
    folder = Path(path).parent
    if within is not None:
        refuse_links(folder, within)
    with file_errors(folder, "created", ValueError):
        new = [place for place in (folder, *folder.parents) if not place.exists()]
        folder.mkdir(parents=True, exist_ok=True)
        for place in new:
            sync_folder(place.parent)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise an AlphaMFError if a file cannot be created in its folder, or is a folder itself."""
    name = printable_name(path)
    if not os.access(os.path.dirname(path) or os.curdir, os.W_OK):
        raise AlphaMFError(
            f"cannot write {name}: the folder does not exist or you do not have permission "
            "to write to it"
        )
    if os.path.isdir(path):
        raise AlphaMFError(f"{name} is a folder; give a file name")
    with file_errors(path, "written"), suppress(FileNotFoundError):
        os.lstat(path)


def permissions(source: str | os.PathLike[str] | int) -> int:
    """Return the permissions to read and write of a file; 0o666 if it is absent or not regular."""
    try:
        found = os.stat(source).st_mode
    except (OSError, ValueError):
        return 0o666
    return found & 0o666 if stat.S_ISREG(found) else 0o666


def is_special(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a pipe, a device or a socket, whose content may never end."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def is_file(path: Path) -> bool:
    """Return whether a path is a regular file; raise an AlphaMFError if the check fails."""
    with file_errors(path, "opened"):
        return path.is_file()


@contextmanager
def _disk_errors(name: str) -> Iterator[None]:
    """Convert errors of a full or failing disk to an AlphaMFError."""
    try:
        yield
    except OSError as error:
        if error.errno not in _DISK:
            raise
        raise AlphaMFError(f"{name} cannot be written: {reason(error)}") from error


@contextmanager
def _copied(stream: BinaryIO, name: str) -> Iterator[Path]:
    """Yield the path for a temporary file, and copy the file to a stream at the end."""
    made = f"a copy in {temporary_place()}"
    with _disk_errors(made), ExitStack() as stack:
        with file_errors(made, "written"):
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="alphamf-"))
        copy = Path(folder, "audio")
        yield copy
        with _disk_errors(name), copy.open("rb") as file:
            shutil.copyfileobj(file, stream, 1 << 20)
            stream.flush()


@contextmanager
def exclusive_lock(path: Path, sentence: str, *, folder: bool = False) -> Iterator[bool]:
    """Lock a folder or (new) file, or raise an AlphaMFError; yield False if locks do not work."""
    if folder and sys.platform == "win32":  # where folders cannot be opened
        with ExitStack() as stack:
            with file_errors(path, "written"):
                locked = stack.enter_context(
                    hold_lock(path.with_name(f"{path.name}.lock"), sentence)
                )
            yield locked
        return
    with file_errors(path, "written"):
        flags = os.O_RDONLY if folder else os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        file = os.open(path, flags, 0o666)
    try:
        yield lock(file, sentence)
    finally:
        os.close(file)
