"""An ``.npz`` of arrays that grow along their last axis, written in constant memory."""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphamf.errors import AlphaMFError
from alphamf.tools.files import atomic_file, file_errors, reason, temporary_place


class Archive:
    """Arrays that are appended part by part, in a file that `numpy.load` can read.

    This is a context manager. Arrays are in Fortran order, in which the last axis is the slowest
    and parts follow each other in the file.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._files: dict[str, Any] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def append(self, name: str, part: NDArray[np.float32]) -> None:
        """Append `part`, shape (..., n), to the array `name` along the last axis."""
        try:
            if name not in self._files:
                self._files[name] = self._stack.enter_context(tempfile.TemporaryFile())
                self._shapes[name] = (*part.shape[:-1], 0)
            self._files[name].write(part.astype("<f4").tobytes("F"))
            self._files[name].flush()
        except OSError as error:
            raise AlphaMFError(
                f"there is not enough disk space in {temporary_place()} for {name}: {reason(error)}"
            ) from error
        *rest, last = self._shapes[name]
        self._shapes[name] = (*rest, last + part.shape[-1])

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of an array so far."""
        return self._shapes[name]

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        mode: int = 0o666,
        replace: bool = True,
        **arrays: NDArray[Any],
    ) -> None:
        """Write the appended arrays, and further complete arrays."""
        with (
            file_errors(path, "written"),
            atomic_file(path, mode=mode, replace=replace) as part,
            zipfile.ZipFile(part, "w") as archive,
        ):
            for name, file in self._files.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array_header_1_0(
                        entry,
                        {"descr": "<f4", "fortran_order": True, "shape": self._shapes[name]},
                    )
                    file.seek(0)
                    shutil.copyfileobj(file, entry, 1 << 20)
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w") as entry:
                    np.lib.format.write_array(entry, array, allow_pickle=False)
