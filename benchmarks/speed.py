"""Tables of speed and memory for BENCHMARKS.md: ``python -m benchmarks.speed [PART ...]``.

PART is ``steps``, ``denoisers``, ``peers`` or ``cores`` (what ``alphamf benchmark`` measures). All
parts together take ten minutes, and the machine should have nothing else to do.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from alphamf.research.speed import measure as speed
from alphamf.research.speed import parallel, peers
from alphamf.research.speed.rows import core_rows, denoiser_rows, peer_rows, step_rows
from alphamf.tools import tables
from alphamf.tools.blas import one_thread
from benchmarks.report import caption, write_section

REPOSITORY = Path(__file__).parents[1]
ROUNDS = 25
COLUMNS = (
    "sampler",
    "cells",
    "ms a step",
    "plain NumPy ms",
    "times as fast as plain",
    "times the floor",
    "method",
    *(f"rnnoise = 1, {rate // 1000} kHz" for rate in peers.RATES),
    "CPU s per s, 16 kHz",
)
"""Headings that stay on the page of the two tables that are wider."""

Rows = Iterator[dict[str, str | float]]


PARTS: dict[str, Callable[[], Rows]] = {
    "steps": lambda: step_rows(speed.steps(ROUNDS)),
    "denoisers": lambda: denoiser_rows(speed.denoisers(3)),
    "peers": lambda: peer_rows(peers.peers(3)),
    "cores": lambda: core_rows(parallel.cores(3)),
}


@one_thread()
def main() -> None:
    """Make the tables that the command line names, and write them."""
    names = sys.argv[1:] or list(PARTS)
    for name in names:
        rows = list(PARTS[name]())
        table = tables.markdown(list(rows[0]), [[str(v) for v in row.values()] for row in rows])
        made = caption("benchmarks.speed", [name], ("alphamf", "numpy"))
        page, text = REPOSITORY / "BENCHMARKS.md", f"{table}\n\n{made}"
        write_section(page, f"speed:{name}", text, columns=COLUMNS)


if __name__ == "__main__":
    main()
