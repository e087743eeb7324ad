r"""Compare methods on speech in rooms; and the room as `alphamf info` estimates it with the truth.

For example, to choose, and once per configuration to test::

    python -m benchmarks.rooms image --split dev -o rooms-dev.csv
    python -m benchmarks.rooms recorded --split dev -o recorded-dev.csv
    python -m benchmarks.rooms dry --split dev --methods noisy,fast,dereverb -o dry-dev.csv
    python -m benchmarks.rooms estimates --split dev -o estimates-dev.csv

image
    Voices of ``speech-crowd`` and ``speech-16k-more`` in rooms by the image method: RT60 of .1 to
    1.2 s, .3 to 5 m away, with a noise at its own place in the room.
recorded
    The same in the recorded rooms of ``rir``: one for the test, and the two channels of one for
    dev.
dry
    What the option costs where there is no echo: clips of ``benchmarks.quality unheard``, and
    their voices alone.
estimates
    RT60 and direct-to-reverberant ratio as estimated from the clips of ``image`` and ``recorded``.

The targets of rooms are the direct sound and the first 50 ms. OUTPUT.csv has a line per clip and
method. There is a table of the means for each condition, and one for each score by reverberation
time, of speech alone. With ``--write`` they go to docs/benchmarks/rooms.md.

Methods are those of `alphamf evaluate`, and: ``wpe``, weighted prediction error by the package
nara_wpe (window 64 ms, hop 16 ms, 10 taps, delay 4, 3 iterations); ``late``, the linear
prediction with heavy tails alone; ``dereverb``, `fast` with ``dereverb=1``.
``pip install 'alphamf[bench,eval,peers]'`` brings what they need.
"""

from __future__ import annotations

import csv
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from alphamf import denoise
from alphamf.audio.room import BANDS, estimate_room
from alphamf.denoising.late_reverberation import late_reverberation
from alphamf.denoising.settings import PRESETS
from alphamf.tools import pool, tables
from alphamf.tools.arrays import Floats
from alphamf.tools.blas import one_thread
from benchmarks.front_clips import Clip
from benchmarks.low_latency import method_names, run
from benchmarks.quality import mean
from benchmarks.report import caption, options_of, publish, run_main
from benchmarks.room_clips import CASES, GROUPS, made
from benchmarks.room_scores import SCORES, scores

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "rooms.md"
METHODS = "noisy,wpe,deepfilternet,fast,late,dereverb"
WPE, LATE, DEREVERB = "wpe", "late", "dereverb"
ESTIMATES = "estimates"
COLUMNS = {**SCORES, "CPU s per s": 3}
"""Headings, and decimals."""


class Row(NamedTuple):
    """A clip's name, its condition and group of rooms, and `COLUMNS` by method."""

    clip: str
    condition: str
    group: str
    scores: dict[str, list[float]]


def processed(name: str, clip: Clip) -> Floats:
    """Process a clip by a method."""
    if name == WPE:
        return predicted(clip.noisy)
    if name == LATE:
        late: Floats = clip.noisy - late_reverberation([clip.noisy], clip.rate)[0].below
        return late
    if name == DEREVERB:
        settings = replace(PRESETS["fast"], dereverb=1.0)
        found: Floats = denoise(clip.noisy, clip.rate, settings).audio
        return found
    return run(name, clip)


def predicted(sound: Floats) -> Floats:
    """Remove late reverberation by weighted prediction error, shape (samples,), at 16 kHz.

    References
    ----------
    Nakatani et al., IEEE TASLP 18 (2010); Drude et al., ITG 2018 (the package nara_wpe).
    """
    from nara_wpe.utils import istft, stft
    from nara_wpe.wpe import wpe

    frames = {"size": 1024, "shift": 256}
    spectrum = stft(sound[None].astype(float), **frames).transpose(2, 0, 1)
    found = wpe(spectrum, taps=10, delay=4, iterations=3, statistics_mode="full")
    return np.asarray(istft(found.transpose(1, 2, 0), **frames)[0, : len(sound)], np.float32)


def measured(number: int, case: str, split: str, methods: list[str]) -> list[Row]:
    """Process the clips that are made of a voice by several methods, and score the results."""
    rows = []
    with one_thread():
        for clip, condition, group, _ in made(case, split, number):
            found = {}
            for name in methods:
                start = time.process_time()
                out = processed(name, clip)[: len(clip.clean)]
                cost = (time.process_time() - start) * clip.rate / len(clip.clean)
                found[name] = [*scores(clip.clean, out, clip.rate), cost]
            rows.append(Row(clip.name, condition, group, found))
    return rows


def by_method(rows: list[Row]) -> str:
    """Return the table of the means, a line for each method."""
    lines = []
    for name in rows[0].scores:
        values = zip(*(row.scores[name] for row in rows), strict=True)
        lines.append([name, *map(mean, values, COLUMNS.values())])
    return tables.markdown(["method", *COLUMNS], lines)


def by_group(rows: list[Row]) -> str:
    """Return a table for each score: a line for each group of rooms, a column for each method."""
    parts = []
    for k, (score, decimals) in enumerate(SCORES.items()):
        lines = []
        for group in GROUPS:
            if not (some := [row for row in rows if row.group == group]):
                continue
            cells = (mean([row.scores[n][k] for row in some], decimals) for n in some[0].scores)
            lines.append([f"{group} ({len(some)})", *cells])
        parts.append(tables.markdown([score, *rows[0].scores], lines))
    return "\n\n".join(parts)


def report(rows: list[Row]) -> str:
    """Return all tables."""
    parts = []
    for condition in dict.fromkeys(row.condition for row in rows):
        some = [row for row in rows if row.condition == condition]
        parts.append(f"Speech, {condition} ({len(some)} clips):\n\n{by_method(some)}")
    alone = [row for row in rows if row.condition == rows[0].condition]
    return "\n\n".join([*parts, *([by_group(alone)] if alone[0].group in GROUPS else [])])


class Estimated(NamedTuple):
    """Truth and estimate of a quantity of a clip's room, with the ends of its interval."""

    clip: str
    condition: str
    what: str
    truth: float
    low: float
    value: float
    high: float


def estimated(number: int, case: str, split: str) -> list[Estimated]:
    """Estimate the room of the clips that are made of a voice; NaN where it is unknown."""
    found = []
    for clip, condition, _, room in made(case, split, number):
        assert room is not None
        estimate = estimate_room(clip.noisy, clip.rate)
        truths = {f"RT60 at {band} Hz": t for band, t in zip(BANDS, room.rt60, strict=True)}
        truths |= {"RT60": room.middle, "direct-to-reverberant ratio": room.drr}
        estimates = {f"RT60 at {band} Hz": each for band, each in estimate.bands.items()}
        estimates |= {"RT60": estimate.rt60, "direct-to-reverberant ratio": estimate.drr}
        for what, truth in truths.items():
            each = estimates.get(what)
            values = (np.nan,) * 3 if each is None else (each.low, each.value, each.high)
            found.append(Estimated(clip.name, condition, what, float(truth), *values))
    return found


def table_of(rows: list[Estimated]) -> str:
    """Return the table of truth and estimate by condition and quantity."""
    from scipy.stats import spearmanr

    lines = []
    for condition in dict.fromkeys(row.condition for row in rows):
        for what in dict.fromkeys(row.what for row in rows):
            every = [row for row in rows if (row.condition, row.what) == (condition, what)]
            some = [row for row in every if not np.isnan(row.value)]
            line = [what, condition, f"{len(some)} of {len(every)}"]
            if len(some) > 2:
                truth, value = (np.array([getattr(r, n) for r in some]) for n in ("truth", "value"))
                rank = spearmanr(truth, value).statistic
                error = np.abs(value - truth)
                ratio = not what.startswith("RT60")
                size = f"{np.median(error):.1f} dB" if ratio else f"{np.median(error / truth):.0%}"
                within = np.mean([row.low <= row.truth <= row.high for row in some])
                # All recordings in one room have one truth, and no rank.
                line += ["-" if np.isnan(rank) else f"{rank:.2f}", size, f"{within:.0%}"]
            lines.append([*line, *["-"] * (6 - len(line))])
    headings = ["what", "speech", "estimated", "rank correlation", "median error", "covered"]
    return tables.markdown(headings, lines)


def write_rows(path: Path, rows: list[Row]) -> None:
    """Write a line per clip and method."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["clip", "condition", "group", "method", *COLUMNS])
        for row in rows:
            for name, values in row.scores.items():
                about = [row.clip, row.condition, row.group, name]
                writer.writerow([*about, *(f"{value:.4f}" for value in values)])


def write_estimates(path: Path, rows: list[Estimated]) -> None:
    """Write a line per clip and quantity."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Estimated._fields)
        writer.writerows([*row[:3], *(f"{value:.4f}" for value in row[3:])] for row in rows)


def main() -> None:
    """Process, write the scores, and print the tables."""
    parser = options_of("benchmarks.rooms", __doc__)
    parser.add_argument("case", choices=(*CASES, ESTIMATES))
    parser.add_argument("--split", choices=("dev", "test"), default="dev")
    parser.add_argument("--clips", type=int, default=48, metavar="N", help="(default 48)")
    parser.add_argument(
        "--methods", default=METHODS, metavar="A,B,...", help=f"(default {METHODS})"
    )
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="(default 1)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.csv")
    parser.add_argument("--write", action="store_true", help=f"put the tables into {PAGE.name}")
    asked = parser.parse_args()
    numbers = range(asked.clips)
    methods = method_names(asked.methods, (WPE, LATE, DEREVERB))
    if asked.case == ESTIMATES:
        works = [partial(estimated, case=each, split=asked.split) for each in ("image", "recorded")]
        parts = [list(pool.results(each, numbers, workers=asked.jobs)) for each in works]
        every = [[row for found in part for row in found] for part in parts]
        write_estimates(asked.output, [row for rows in every for row in rows])
        names = ("Rooms by the image method", "Recorded rooms")
        text = "\n\n".join(
            f"{n}:\n\n{table_of(rows)}" for n, rows in zip(names, every, strict=True)
        )
    else:
        work = partial(measured, case=asked.case, split=asked.split, methods=methods)
        done = pool.results(work, numbers, workers=asked.jobs)
        rows = [row for found in done for row in found]
        write_rows(asked.output, rows)
        text = report(rows)
    note = caption("benchmarks.rooms", sys.argv[1:], ("alphamf", "numpy"))
    publish(PAGE, f"{asked.case}:{asked.split}", f"{text}\n\n{note}", write=asked.write)


if __name__ == "__main__":
    run_main(main)
