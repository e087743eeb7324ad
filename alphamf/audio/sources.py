"""Turn a file, pipe or stream into a file on disk that can be decoded."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

from alphamf.audio import formats
from alphamf.audio.layout import Layout, TruncationError
from alphamf.errors import AlphaMFError
from alphamf.tools.files import file_errors, printable_name, reason, temporary_place


@contextmanager
def decodable_path(
    source: str | os.PathLike[str] | BinaryIO, *, salvage: bool = False
) -> Iterator[tuple[Path, str, Layout]]:
    """Yield a path to decode, the name of the source in messages, and what is in it.

    Streams and named pipes are copied to a temporary file, because decoding needs to seek.
    """
    with ExitStack() as stack:
        if isinstance(source, (str, os.PathLike)):
            name, path = printable_name(source), Path(source)
            stream = _unseekable(path, name)
        else:
            name, stream = "standard input", source
        if stream is not None:
            with stream if stream is not source else nullcontext():
                path = _copy(stream, name, stack)
        with file_errors(name, "read"):
            if not path.stat().st_size:
                raise AlphaMFError(f"{name} is empty (0 bytes)")
            layout = formats.check(path, name)
        if layout.cut is not None and not salvage:
            raise TruncationError(layout.cut)
        yield path, name, layout


def _unseekable(path: Path, name: str) -> BinaryIO | None:
    """Open a pipe or device, which has to be copied; None for a regular file."""
    try:
        mode = path.stat().st_mode
        if not stat.S_ISDIR(mode):
            file = path.open("rb")
            if not stat.S_ISREG(mode):
                return file
            file.close()
            return None
    except FileNotFoundError:
        raise AlphaMFError(f"{name} does not exist") from None
    except (OSError, ValueError) as error:
        raise AlphaMFError(f"{name} cannot be opened: {reason(error)}") from error
    raise AlphaMFError(f"{name} is a folder, not an audio file")


def _copy(stream: BinaryIO, name: str, stack: ExitStack) -> Path:
    """Copy a stream to a temporary file, which is deleted when the exit stack closes."""
    try:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="alphamf-"))
        copy = Path(folder, "audio")
        with copy.open("wb") as file:
            shutil.copyfileobj(stream, file, 1 << 20)
    except OSError as error:
        raise AlphaMFError(
            f"{name} cannot be copied to {temporary_place()}: {reason(error)}"
        ) from error
    return copy
