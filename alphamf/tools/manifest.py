"""Read the table of a corpus, ``MANIFEST.csv``."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from alphamf.errors import AlphaMFError
from alphamf.tools.files import file_errors

MANIFEST = "MANIFEST.csv"
"""Name of the file that lists the recordings of a corpus, in its folder."""


def read_manifest(folder: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """Return the rows of a corpus's manifest."""
    path = folder / MANIFEST
    with (
        file_errors(path, "read", AlphaMFError, UnicodeDecodeError, csv.Error),
        path.open(newline="", encoding="utf-8") as file,
    ):
        reader = csv.DictReader(file)
        rows = []
        for row in reader:
            for column in columns:
                if row.get(column) is None:
                    raise AlphaMFError(f"line {reader.line_num} has no {column}")
            rows.append(row)
    return rows
