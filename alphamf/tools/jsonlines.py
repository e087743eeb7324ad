"""Files that grow by a JSON object a line, and that a kill cannot spoil."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file; what a kill left of a line is passed over."""
    with path.open("rb") as file:
        for line in file:
            try:
                item = json.loads(line)
            except ValueError:
                continue
            if isinstance(item, dict):
                yield item


def append(path: Path, item: Mapping[str, Any]) -> None:
    """Add an object as a line, which is on the disk when this returns."""
    with path.open("ab+") as file:
        broken = False
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            broken = file.read() != b"\n"
        # After a line that was cut off, on a new one.
        file.write((b"\n" if broken else b"") + json.dumps(item).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
