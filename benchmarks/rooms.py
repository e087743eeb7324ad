"""Compare the room as `alphamf info` estimates it with the truth.

``python -m benchmarks.rooms --split test`` estimates RT60 and direct-to-reverberant ratio from the
clips of ``benchmarks.quality image`` and ``recorded``; the table is
docs/benchmarks/rooms-estimates-SPLIT.csv.
"""

from functools import partial
from typing import Annotated, NamedTuple

import numpy as np

from alphamf.audio.room import BANDS, estimate_room
from alphamf.tools import pool
from benchmarks import room_clips
from benchmarks.report import run_main
from benchmarks.scored import publish

HEADINGS = ["rooms", "what", "speech", "estimated", "rank correlation", "median error", "covered"]
KINDS = {"image": "image method", "recorded": "recorded"}


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
    for clip, condition, _, room in room_clips.made(case, split, number):
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


def lines_of(kind: str, rows: list[Estimated]) -> list[list[str]]:
    """Return the lines of truth and estimate by condition and quantity."""
    from scipy.stats import spearmanr

    lines = []
    for condition in dict.fromkeys(row.condition for row in rows):
        for what in dict.fromkeys(row.what for row in rows):
            every = [row for row in rows if (row.condition, row.what) == (condition, what)]
            some = [row for row in every if not np.isnan(row.value)]
            line = [kind, what, condition, f"{len(some)} of {len(every)}"]
            if len(some) > 2:
                truth, value = (np.array([getattr(r, n) for r in some]) for n in ("truth", "value"))
                rank = spearmanr(truth, value).statistic
                error = np.abs(value - truth)
                ratio = not what.startswith("RT60")
                size = f"{np.median(error):.1f} dB" if ratio else f"{np.median(error / truth):.0%}"
                within = np.mean([row.low <= row.truth <= row.high for row in some])
                # All recordings in one room have one truth, and no rank.
                line += ["-" if np.isnan(rank) else f"{rank:.2f}", size, f"{within:.0%}"]
            lines.append([*line, *["-"] * (7 - len(line))])
    return lines


def main(*, split: Annotated[str, ("dev", "test")] = "dev", clips: int = 24, jobs: int = 1) -> None:
    """Estimate, and write the table."""
    lines = [HEADINGS]
    for case, kind in KINDS.items():
        work = partial(estimated, case=case, split=split)
        found = pool.results(work, range(clips), workers=jobs)
        lines += lines_of(kind, [row for rows in found for row in rows])
    publish(f"rooms-estimates-{split}.csv", lines)


if __name__ == "__main__":
    run_main(main)
