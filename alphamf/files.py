"""File names in messages, and files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from alphamf.errors import AlphaMFError


def shown(path: str | os.PathLike[str]) -> str:
    """Return a file name on one line: characters that do not print are escaped."""
    text = os.fspath(path)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def reason(error: BaseException) -> str:
    """Return what the system says went wrong, without number and file name."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


@contextmanager
def atomic(target: str | os.PathLike[str] | BinaryIO) -> Iterator[Path]:
    """Give a temporary file that becomes `target` when the block ends well, and goes otherwise.

    It lies beside the target and is renamed, so that nobody ever sees half a file. A stream, a
    named pipe or a device gets a copy of it at the end instead.

    Raises
    ------
    AlphaMFError
        The folder cannot be written to.
    """
    if not isinstance(target, (str, os.PathLike)):
        with tempfile.TemporaryDirectory(prefix="alphamf-") as folder:
            copy = Path(folder, "audio")
            yield copy
            with copy.open("rb") as file:
                shutil.copyfileobj(file, target, 1 << 20)
            target.flush()
        return
    final = Path(os.path.realpath(target))
    if final.exists() and not final.is_file():
        try:
            stream = final.open("wb")
        except OSError as error:
            raise AlphaMFError(f"{shown(target)} cannot be written: {reason(error)}") from error
        with stream, atomic(stream) as copy:
            yield copy
        return
    part = final.with_name(f".alphamf-{secrets.token_hex(8)}.part")
    try:
        # Made like any new file, so that the result has the permissions that the user expects.
        try:
            part.touch(exist_ok=False)
        except OSError as error:
            raise AlphaMFError(f"{shown(target)} cannot be written: {reason(error)}") from error
        yield part
        try:
            part.replace(final)
        except OSError as error:
            raise AlphaMFError(f"{shown(target)} cannot be written: {reason(error)}") from error
    finally:
        with suppress(OSError):
            part.unlink()
