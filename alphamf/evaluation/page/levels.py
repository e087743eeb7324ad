"""Charts of scores against the SNR of the input."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from markupsafe import Markup

from alphamf.evaluation.page.styles import Style
from alphamf.evaluation.page.svg import INK, chart, colour
from alphamf.evaluation.page.text import number
from alphamf.evaluation.results import Result
from alphamf.evaluation.summary import SCORES, groups, values
from alphamf.tools.files import printable_name
from alphamf.tools.tables import mean_and_error

Lines = dict[Style, list[tuple[float, float, float]]]
"""SNR in dB, mean and standard error (0 if unknown) of each method."""


def levels(results: list[Result], styles: dict[str, Style]) -> list[Markup]:
    """Draw scores against the input SNR: averaged over all noises, then the gain for each noise.

    A single level gives no charts. Oracles are left out, because their scores would determine the
    scale.
    """
    drawn = [style for style in styles.values() if style.kind != "oracle"]
    known = [r for r in results if r.snr is not None]
    if len({r.snr for r in known}) < 2:
        return []
    noises = groups((r for r in known if r.noise is not None), ("noise",))
    panels = [("si_sdr_gain", "all noises", known)]
    panels += [(score, "all noises", known) for score in ("pesq", "estoi")]
    if len(noises) > 1:
        panels += [
            ("si_sdr_gain", printable_name(noise), some)
            for (noise,), some in sorted(noises.items())
        ]
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


def _lines(results: list[Result], styles: list[Style], score: str) -> Lines:
    """Return the points of each method that has scores."""
    found: Lines = {}
    cells = groups(results, ("method", "snr"))
    for style in styles:
        # The input's gain is zero by definition.
        if style.kind == "input" and score == "si_sdr_gain":
            continue
        for method, snr in sorted(key for key in cells if key[0] == style.method):
            known = [v for v in values(cells[method, snr], score) if math.isfinite(v)]
            mean, error = mean_and_error(known)
            if known:
                found.setdefault(style, []).append((snr, mean, np.nan_to_num(error)))
    return found


def _level(
    score: str,
    title: str,
    found: Lines,
    together: list[float],
) -> Markup:
    """Draw lines; the axis also covers the values of `together`."""

    def paint(axes: Any) -> None:
        if score == "si_sdr_gain":
            axes.axhline(0, color=INK, linewidth=0.9)
        for style, points in found.items():
            x, y, error = zip(*points, strict=True)
            dashes = "--" if style.kind == "input" else "-"
            axes.errorbar(
                x, y, error, color=colour(style.colour), marker=style.marker, linestyle=dashes,
                elinewidth=0.9,
            )  # fmt: skip
        axes.set_xticks(sorted({x for points in found.values() for x, *_ in points}))
        axes.grid(axis="y")
        if together:
            low, high = min(0.0, *together), max(0.0, *together)
            room = 0.06 * (high - low) or 1
            axes.set_ylim(low - room, high + room)
        heading = SCORES[score].heading
        axes.set(title=f"{heading}, {title}", xlabel="input SNR, dB")

    decimals = SCORES[score].decimals
    described = "; ".join(
        f"{style.method} "
        + ", ".join(f"{number(mean, decimals)} at {snr:g} dB" for snr, mean, _ in points)
        for style, points in found.items()
    )
    return chart(paint, f"Mean {SCORES[score].label} against SNR, {title}: {described}.")
