"""Models in an ``.npz`` file: written completely, and read safely even from untrusted sources.

Reading checks sizes first and accepts no pickled objects. Arrays have the same layout in the file
as in memory, so that they can be memory-mapped.
"""

import json
import math
import os
import zipfile
import zlib
from collections.abc import Callable, Collection
from functools import cached_property
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from alphamf.errors import AlphaMFError
from alphamf.tools.files import atomic_file, printable_name
from alphamf.tools.jsonlines import replace_infinite

Model = TypeVar("Model")

FORMAT = 1
"""Number of the header's format; files with another one were written by another version."""

MOST_SHOWN = 40
"""Maximum number of characters of a file's text in an error message."""

ALIGNMENT = 64
"""Alignment of the arrays in a file, in bytes: that of a cache line."""

_LOCAL_HEADER = 30
"""Bytes of a zip entry's header before its name; the lengths of name and extra field are last."""

_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def write(
    path: str | os.PathLike[str],
    header: dict[str, Any],
    arrays: dict[str, NDArray[Any]],
    *,
    replace: bool = True,
) -> None:
    """Write arrays and a JSON header to an ``.npz`` file, completely or not at all."""
    text = np.array(json.dumps(replace_infinite({"format": FORMAT, **header}), ensure_ascii=False))
    named: dict[str, Any] = {**arrays, "header": text}
    with (
        atomic_file(path, replace=replace) as part,
        part.open("wb") as file,
        zipfile.ZipFile(file, "w") as archive,
    ):
        for name, array in named.items():
            entry = zipfile.ZipInfo(f"{name}.npy")
            entry.extra = _padding(file.tell() + _LOCAL_HEADER + len(entry.filename))
            with archive.open(entry, "w") as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _padding(start: int) -> bytes:
    """Return the padding that aligns an entry's bytes; `start` is the position of the padding."""
    size = -(start + 4) % ALIGNMENT
    return b"\xff\xff" + size.to_bytes(2, "little") + bytes(size)


class Origin:
    """The file that a model was loaded from."""

    def __init__(self, path: Path) -> None:
        self._path, self._state = path.absolute(), _state(path)

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the file; empty if it has changed since it was loaded, or cannot be read."""
        import hashlib

        try:
            with self._path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            return digest if _state(self._path) == self._state else ""
        except OSError:
            return ""


def _state(path: Path) -> tuple[int, ...]:
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def load(
    path: Path,
    kind: str,
    limits: dict[str, int],
    make: Callable[[dict[str, Any], dict[str, NDArray[Any]], Origin], Model],
    optional: Collection[str] = (),
) -> Model:
    """Return the model in a file of `write`; raise an AlphaMFError if the file is unusable.

    `kind`: the model's, for messages. `limits`, `optional`: as in `read`. `make`: builds the model.
    """
    try:
        origin = Origin(path)
        arrays = read(path, limits, optional)
        header = json.loads(str(arrays["header"]))
        if header["format"] != FORMAT:
            text = printable_name(str(header["format"])[:MOST_SHOWN])
            raise AlphaMFError(f"it has the unknown {kind} format {text}")
        return make(header, arrays, origin)
    except AlphaMFError as error:
        raise AlphaMFError(f"{printable_name(path)} is not a usable {kind}: {error}") from error
    except MemoryError as error:
        raise AlphaMFError(f"there is not enough memory to read {printable_name(path)}") from error
    except Exception as error:  # zipfile, zlib, numpy and json each have their own
        raise AlphaMFError(
            f"{printable_name(path)} is damaged, or was not written by alphamf as a {kind}"
        ) from error


def read(
    path: Path, limits: dict[str, int], optional: Collection[str] = ()
) -> dict[str, NDArray[Any]]:
    """Read the arrays named in `limits` from an archive; `optional` ones may be missing.

    The size of an array in bytes is checked before it is allocated, in the archive's directory and
    in the array's own header; `limits` has the maxima.
    """
    size = path.stat().st_size
    if size > sum(limits.values()) + 2**20:
        raise AlphaMFError(f"it has {size} bytes")
    with path.open("rb") as file, zipfile.ZipFile(file) as archive:
        held = set(archive.namelist())
        wanted = {
            name: most
            for name, most in limits.items()
            if name not in optional or f"{name}.npy" in held
        }
        return {name: _member(archive, file, name, most) for name, most in wanted.items()}


def _member(archive: zipfile.ZipFile, file: IO[bytes], name: str, most: int) -> NDArray[Any]:
    """Return one array of an archive for `read`; `most` limits its size in bytes."""
    found = archive.getinfo(f"{name}.npy")
    size = found.file_size
    if size > most:
        raise AlphaMFError(f"its {name} would unpack to {size} bytes")
    # With other compressions, zipfile would unpack without a limit.
    if found.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise AlphaMFError(f"its {name} has a compression that numpy does not use")
    with archive.open(found) as entry:
        header = _HEADERS[np.lib.format.read_magic(entry)]
        shape, fortran, dtype = header(entry)
        start = entry.tell()
    count = math.prod(shape)
    if dtype.hasobject or count * dtype.itemsize > size:
        raise AlphaMFError(f"its {name} of the shape {shape} is incomplete")
    if found.compress_type == zipfile.ZIP_DEFLATED or not size - start:
        with archive.open(found) as entry:
            array: NDArray[Any] = np.lib.format.read_array(entry, allow_pickle=False)
        return array
    mapped = _mapped(file, found)
    if zlib.crc32(mapped.data) != found.CRC:
        raise zipfile.BadZipFile(f"{name} is damaged")
    flat = np.frombuffer(mapped, dtype, count, start)
    return flat.reshape(shape, order="F" if fortran else "C")


def _mapped(file: IO[bytes], entry: zipfile.ZipInfo) -> NDArray[np.uint8]:
    """Map the bytes of an uncompressed entry into memory; read them if that is impossible."""
    file.seek(entry.header_offset + _LOCAL_HEADER - 4)
    name, extra = (int.from_bytes(file.read(2), "little") for _ in range(2))
    start = entry.header_offset + _LOCAL_HEADER + name + extra
    try:
        return np.memmap(file, np.uint8, "r", start, (entry.file_size,))
    except OSError:  # not every network drive can map files
        file.seek(start)
        return np.frombuffer(file.read(entry.file_size), np.uint8)
