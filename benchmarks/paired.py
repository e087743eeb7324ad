r"""How far a method is ahead of others that were scored elsewhere, on the same clips.

For example, denoisers that `alphamf evaluate` cannot run, on the mixtures of BENCHMARKS.md::

    alphamf evaluate --pairs mixed/pairs.csv --clean mixed --noisy mixed --method fast -o mixed-16k
    python -m benchmarks.paired mixed-16k/results.csv peers-16k.csv --method fast --write

The second file has the columns method, noisy, noise, si_sdr, pesq_wb and estoi, a line per clip.
There is a table for each score: mean differences over the clips that both have, with their standard
errors. With ``--by voice`` clips are grouped by the folder that they lie in, their speaker's, and
with ``--by pauses`` by whether the pauses of their clean file are quiet.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

from alphamf.evaluation.results import describe_pauses
from alphamf.tools import tables
from benchmarks.clip_scores import SCORES
from benchmarks.report import caption, options_of, publish, run_main

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "quality.md"

Scores = dict[str, tuple[str, list[float]]]
"""Group, and SI-SDR, PESQ and ESTOI, by noisy clip."""


def read(path: Path, by: str) -> dict[str, Scores]:
    """Return the scores of every method in a file; the groups are kinds of noise, or voices."""
    found: dict[str, Scores] = {}
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            quality = row.get("pesq_wb") or row["pesq"]
            values = [float(each) for each in (row["si_sdr"], quality, row["estoi"])]
            if by == "pauses":
                group = describe_pauses(float(row.get("pause_depth") or "nan"))
            else:
                group = row["noise"] if by == "noise" else Path(row["noisy"]).parent.name
            found.setdefault(row["method"], {})[row["noisy"]] = (group, values)
    return found


def differences(own: Scores, others: dict[str, Scores], by: str) -> str:
    """Return a table for each score: a line for each group, and a column for each other method."""
    groups = [None, *sorted({group for group, _ in own.values()})]
    parts = []
    for k, (score, decimals) in enumerate(SCORES.items()):
        lines = []
        for group in groups:
            line = [group or "all"]
            for other in others.values():
                both = [name for name in own if name in other and group in (None, own[name][0])]
                apart = np.array([own[name][1][k] - other[name][1][k] for name in both])
                found = tables.mean_and_error(apart[np.isfinite(apart)])
                line.append(tables.format_mean(*found, decimals, "+"))
            lines.append(line)
        headings = [f"{score}, by {by}", *(f"less {name}" for name in others)]
        parts.append(tables.markdown(headings, lines))
    return "\n\n".join(parts)


def main() -> None:
    """Compare, and print the tables."""
    parser = options_of("benchmarks.paired", __doc__)
    parser.add_argument("own", type=Path, metavar="RESULTS.csv")
    parser.add_argument("others", type=Path, metavar="PEERS.csv")
    parser.add_argument("--method", default="fast", help="(default fast)")
    parser.add_argument(
        "--by", choices=("noise", "voice", "pauses"), default="noise", help="(default noise)"
    )
    parser.add_argument("--write", action="store_true", help=f"put the tables into {PAGE.name}")
    asked = parser.parse_args()
    own, others = (read(path, asked.by) for path in (asked.own, asked.others))
    if asked.method not in own:
        parser.error(f"{asked.own} has no method {asked.method!r}")
    note = caption("benchmarks.paired", sys.argv[1:], ("alphamf",))
    text = f"{differences(own[asked.method], others, asked.by)}\n\n{note}"
    section = asked.method if asked.by == "noise" else f"{asked.method}-by-{asked.by}"
    publish(PAGE, f"paired:{section}", text, write=asked.write)


if __name__ == "__main__":
    run_main(main)
