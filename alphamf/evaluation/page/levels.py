"""Charts of scores against the level of the noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from markupsafe import Markup

from alphamf.evaluation.page.looks import Look
from alphamf.evaluation.page.svg import INK, chart, colour
from alphamf.evaluation.page.text import number
from alphamf.evaluation.runner import Result
from alphamf.evaluation.summary import SCORES, groups, values
from alphamf.tools.files import shown
from alphamf.tools.tables import mean_and_error

Lines = dict[Look, list[tuple[float, float, float]]]
"""Level, mean and standard error (0 where it is not known), for each method."""


def levels(results: list[Result], looks: dict[str, Look]) -> list[Markup]:
    """Draw scores against the level of the noise: over all noises, then the gain noise by noise.

    Nothing is drawn of a single level. Oracles are left out, whose scale would hide the rest.
    """
    drawn = [look for look in looks.values() if look.kind != "oracle"]
    known = [r for r in results if r.snr is not None]
    if len({r.snr for r in known}) < 2:
        return []
    noises = groups((r for r in known if r.noise is not None), ("noise",))
    panels = [("si_sdr_gain", "all noises", known)]
    panels += [(score, "all noises", known) for score in ("pesq", "estoi")]
    if len(noises) > 1:
        panels += [("si_sdr_gain", shown(noise), some) for (noise,), some in sorted(noises.items())]
    lines = [(score, title, _lines(some, drawn, score)) for score, title, some in panels]
    gains = [
        mean + side
        for score, _, found in lines
        if score == "si_sdr_gain"
        for points in found.values()
        for _, mean, error in points
        for side in (-error, error)
    ]
    return [
        _level(score, title, found, gains if score == "si_sdr_gain" else [])
        for score, title, found in lines
        if found
    ]


def _lines(results: list[Result], looks: list[Look], score: str) -> Lines:
    """Return the points of each method that has any."""
    found: Lines = {}
    cells = groups(results, ("method", "snr"))
    for look in looks:
        # The input's gain is zero by definition.
        if look.kind == "input" and score == "si_sdr_gain":
            continue
        for method, snr in sorted(key for key in cells if key[0] == look.method):
            known = [v for v in values(cells[method, snr], score) if math.isfinite(v)]
            mean, error = mean_and_error(known)
            if known:
                found.setdefault(look, []).append((snr, mean, np.nan_to_num(error)))
    return found


def _level(
    score: str,
    title: str,
    found: Lines,
    together: list[float],
) -> Markup:
    """Draw lines; charts that share `together`, all their values, have the same scale."""

    def paint(axes: Any) -> None:
        if score == "si_sdr_gain":
            axes.axhline(0, color=INK, linewidth=0.9)
        for look, points in found.items():
            x, y, error = zip(*points, strict=True)
            dashes = "--" if look.kind == "input" else "-"
            axes.errorbar(
                x, y, error, color=colour(look.colour), marker=look.marker, linestyle=dashes,
                elinewidth=0.9,
            )  # fmt: skip
        axes.set_xticks(sorted({x for points in found.values() for x, *_ in points}))
        axes.grid(axis="y")
        if together:
            low, high = min(0.0, *together), max(0.0, *together)
            room = 0.06 * (high - low) or 1
            axes.set_ylim(low - room, high + room)
        heading = SCORES[score].heading
        axes.set(title=f"{heading}, {title}", xlabel="SNR of the input, dB")

    decimals = SCORES[score].decimals
    said = "; ".join(
        f"{look.method} "
        + ", ".join(f"{number(mean, decimals)} at {snr:g} dB" for snr, mean, _ in points)
        for look, points in found.items()
    )
    return chart(paint, f"Mean {SCORES[score].label} against SNR, {title}: {said}.")
