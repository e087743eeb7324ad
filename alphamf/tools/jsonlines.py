"""Append JSON objects to a file, a line each; a killed run spoils its last line at most."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file; lines that are no JSON object are passed over."""
    with path.open("rb") as file:
        for line in file:
            try:
                item = json.loads(line)
            except ValueError:
                continue
            if isinstance(item, dict):
                yield item


def append(path: Path, item: Mapping[str, Any]) -> None:
    """Append an object as a line, which is on the disk when this returns."""
    with path.open("ab+") as file:
        broken = False
        if file.seek(0, os.SEEK_END):
            file.seek(-1, os.SEEK_END)
            broken = file.read() != b"\n"
        # A line that was cut off is ended first.
        file.write((b"\n" if broken else b"") + json.dumps(item).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
