"""Append JSON objects to a file, one per line; a killed run damages at most the last line."""

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from alphamf.tools.temporary import sync_folder


def replace_infinite(value: Any) -> Any:
    """Return a value with None in place of infinities and NaN, which JSON does not support."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: replace_infinite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [replace_infinite(item) for item in value]
    return value


def dumps(value: Any, indent: int | None = None) -> str:
    """Return a value as JSON text, with null for infinities and NaN."""
    return json.dumps(replace_infinite(value), indent=indent, allow_nan=False)


def _no_json(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file; lines that are not a JSON object are skipped."""
    with path.open("rb") as file:
        for line in file:
            try:
                item = json.loads(line, parse_constant=_no_json)
            except (ValueError, RecursionError):
                continue
            if isinstance(item, dict):
                yield item


def append(path: Path, item: Mapping[str, Any]) -> None:
    """Append an object as a line, and flush it to disk."""
    with path.open("ab+") as file:
        length = file.seek(0, os.SEEK_END)
        file.seek(max(0, length - 1))
        broken = file.read() not in (b"", b"\n")  # a line that was cut off is ended first
        file.write((b"\n" if broken else b"") + dumps(item).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    if not length:  # the file is new
        sync_folder(path.parent)
