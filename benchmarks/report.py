"""Rows of scores as a Markdown table, a section of a file, and CSV."""

from __future__ import annotations

import csv
import os
import platform
import re
import shlex
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from importlib.metadata import version
from math import nan
from pathlib import Path

import numpy as np

from alphamf.tools import tables

SCORES = {
    "si_sdr": ("SI-SDR dB", 2),
    "sdr": ("SDR dB", 2),
    "pesq": ("PESQ", 3),
    "estoi": ("ESTOI", 3),
}
"""Field, heading and decimals."""


@dataclass(frozen=True)
class Row:
    """Scores of one clip under one configuration.

    ``seconds`` is the clip's length, ``cpu`` the seconds of processor time that it took, and
    ``si_sdr_before`` the input's SI-SDR. A clip that failed has an ``error`` and no scores.
    """

    config: str
    snr: int
    clip: str
    seconds: float
    si_sdr_before: float
    si_sdr: float = nan
    sdr: float = nan
    pesq: float = nan
    estoi: float = nan
    cpu: float = 0.0
    error: str = ""


def markdown(rows: list[Row]) -> str:
    """Return a table of means with standard errors over the clips, a line per group of rows."""
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.config, row.snr), []).append(row)
    headings = ["configuration", "SNR dB", "clips", *(heading for heading, _ in SCORES.values())]
    headings += ["better on", "CPU s per clip", "CPU s per s"]
    lines = [[config, str(snr), *_cells(group)] for (config, snr), group in groups.items()]
    notes = [
        f"{config} at {snr} dB failed on {len(failed)} of {len(group)} clips: {failed[0].error}."
        for (config, snr), group in groups.items()
        if (failed := [row for row in group if row.error])
    ]
    return "\n\n".join([tables.markdown(headings, lines), *notes])


def _cells(group: list[Row]) -> list[str]:
    done = [row for row in group if not row.error]
    if not done:
        return ["0", *["-"] * (len(SCORES) + 3)]
    cells = [str(len(done))]
    for field, (_, decimals) in SCORES.items():
        mean, error = tables.mean_and_error(getattr(row, field) for row in done)
        cells.append(f"{mean:.{decimals}f} ± {error:.{decimals}f}")
    cells.append(f"{np.mean([row.si_sdr > row.si_sdr_before for row in done]):.0%}")
    cells.append(f"{np.mean([row.cpu for row in done]):.2f}")
    cells.append(f"{np.mean([row.cpu / row.seconds for row in done]):.2f}")
    return cells


def caption(module: str, arguments: list[str], packages: tuple[str, ...]) -> str:
    """Return how a table was made: command, date, versions, processors."""
    command = shlex.join(["python", "-m", module, *arguments])
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    return (
        f"`{command}`, {datetime.now(UTC):%Y-%m-%d}; {versions}, "
        f"Python {platform.python_version()}; {os.cpu_count()} CPUs, one thread per process."
    )


def write_section(path: Path, name: str, text: str) -> None:
    """Replace what stands between the markers of `name` in a file, or add it at the end."""
    opening, closing = f"<!-- {name} -->", f"<!-- /{name} -->"
    section = f"{opening}\n{text}\n{closing}"
    before = path.read_text(encoding="utf-8") if path.exists() else "# Benchmarks\n"
    pattern = re.compile(f"{re.escape(opening)}.*?{re.escape(closing)}", re.DOTALL)
    after, count = pattern.subn(lambda _: section, before)
    if not count:
        after = f"{before.rstrip()}\n\n## {name}\n\n{section}\n"
    path.write_text(after, encoding="utf-8")


def publish(path: Path, name: str, text: str, *, write: bool) -> None:
    """Print a section, and put it into the page if asked to."""
    print(text)
    if write:
        write_section(path, name, text)


def write_csv(path: Path, rows: list[Row]) -> None:
    """Write a line per clip."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Row)])
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
