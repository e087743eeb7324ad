"""Models in an ``.npz``: written whole, read though nobody vouches for them.

Of what is read, sizes come first, and no pickled objects.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from alphamf.errors import AlphaMFError
from alphamf.tools.files import atomic, shown
from alphamf.tools.jsonlines import finite

Model = TypeVar("Model")

FORMAT = 1
"""Of the header; a file of another one was written by a version that is not this one."""

MOST_SHOWN = 40
"""Characters of a file's own text that an error message shows."""

_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def write(
    path: str | os.PathLike[str], header: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> None:
    """Write arrays, and a header as JSON, all at once or not at all.

    Parameters
    ----------
    path
        The ``.npz``.
    header
        JSON values.
    arrays
        By name.

    Raises
    ------
    AlphaMFError
        The file cannot be written.
    """
    text = np.array(json.dumps(finite({"format": FORMAT, **header}), ensure_ascii=False))
    named: dict[str, Any] = {**arrays, "header": text}
    with atomic(path) as part, part.open("wb") as file:
        np.savez_compressed(file, **named)


def load(
    path: Path,
    kind: str,
    limits: dict[str, int],
    make: Callable[[dict[str, Any], dict[str, NDArray[Any]], str], Model],
) -> Model:
    """Read what `write` wrote, and make a model of it.

    Parameters
    ----------
    kind
        What the model is called where it cannot be read.
    limits
        As for `read`.
    make
        Given the header, the arrays and the file's SHA-256.

    Raises
    ------
    AlphaMFError
        The file is no model of this kind, or `make` refuses it.
    """
    try:
        arrays = read(path, limits)
        header = json.loads(str(arrays["header"]))
        if header["format"] != FORMAT:
            text = shown(str(header["format"])[:MOST_SHOWN])
            raise AlphaMFError(f"it is of the unknown {kind} format {text}")
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return make(header, arrays, digest)
    except AlphaMFError as error:
        raise AlphaMFError(f"{shown(path)} is not a usable {kind}: {error}") from error
    except MemoryError as error:
        raise AlphaMFError(f"there is not enough memory to read {shown(path)}") from error
    except Exception as error:  # zipfile, zlib, numpy and json each have their own
        raise AlphaMFError(f"{shown(path)} is not a {kind} that alphamf wrote") from error


def read(path: Path, limits: dict[str, int]) -> dict[str, NDArray[Any]]:
    """Return the named arrays of an archive; others that it holds are not touched.

    What an array would take in memory is checked before it is given any, by the archive's
    directory and by the array's own header.

    Parameters
    ----------
    limits
        Name to the most bytes of each array that is wanted.

    Raises
    ------
    AlphaMFError
        An array is too large, or a header and the archive's directory do not agree.
    Exception
        What zipfile, zlib and numpy say of a file that is damaged or lacks an array.
    """
    size = path.stat().st_size
    if size > sum(limits.values()) + 2**20:
        raise AlphaMFError(f"it has {size} bytes")
    with zipfile.ZipFile(path) as archive:
        for name, most in limits.items():
            found = archive.getinfo(f"{name}.npy")
            size = found.file_size
            if size > most:
                raise AlphaMFError(f"its {name} would unpack to {size} bytes")
            # Of others, zipfile unpacks all that it has read, however much that becomes.
            if found.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise AlphaMFError(f"its {name} is packed in a way that numpy does not use")
            with archive.open(f"{name}.npy") as entry:
                header = _HEADERS[np.lib.format.read_magic(entry)]
                shape, _, dtype = header(entry)
            if dtype.hasobject or math.prod(shape) * dtype.itemsize > size:
                raise AlphaMFError(f"its {name} of the shape {shape} is not in the file")
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in limits}
