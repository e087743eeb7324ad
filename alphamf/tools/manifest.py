"""Read the table of a corpus, ``MANIFEST.csv``."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from alphamf.errors import AlphaMFError
from alphamf.tools.files import printable_name, reason

MANIFEST = "MANIFEST.csv"
"""Name of the file that lists the recordings of a corpus, in its folder."""


def read_manifest(folder: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """Return the rows of a corpus's manifest."""
    path = folder / MANIFEST
    rows = []
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            for row in reader:
                for column in columns:
                    if row[column] is None:
                        raise AlphaMFError(
                            f"{printable_name(path)} cannot be read: line {reader.line_num} "
                            f"has no {column}"
                        )
                rows.append(row)
    except (OSError, KeyError, UnicodeDecodeError, csv.Error) as error:
        problem = f"it lacks the column {error}" if isinstance(error, KeyError) else reason(error)
        raise AlphaMFError(f"{printable_name(path)} cannot be read: {problem}") from error
    return rows
