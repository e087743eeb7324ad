"""Tables: means with standard errors as Markdown, and the manifest of a corpus."""

import csv
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.tools.files import file_errors


def mean_and_error(values: Iterable[float]) -> tuple[float, float]:
    """Return the mean (NaN without values) and its standard error (NaN for fewer than two)."""
    array = np.fromiter(values, np.float64)
    mean = float(array.mean()) if len(array) else math.nan
    error = float(array.std(ddof=1) / np.sqrt(len(array))) if len(array) > 1 else math.nan
    return mean, error


def format_mean(mean: float, error: float, decimals: int, sign: str = "") -> str:
    """Format a mean with its standard error; without the error if it is NaN.

    >>> format_mean(2, 0.577, 2, "+"), format_mean(1, float("nan"), 2)
    ('+2.00 ± 0.58', '1.00')
    """
    text = f"{mean:{sign}.{decimals}f}"
    return text if math.isnan(error) else f"{text} ± {error:.{decimals}f}"


def markdown(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; all columns but the first are aligned to the right."""
    lines = [headings, ["---"] + ["---:"] * (len(headings) - 1), *rows]
    cells = [[cell.replace("|", r"\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


MANIFEST = "MANIFEST.csv"
"""Name of the file that lists the recordings of a corpus, in its folder."""


def read_manifest(folder: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """Return a manifest's rows; raise an AlphaMFError if not readable or if a column is missing."""
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
