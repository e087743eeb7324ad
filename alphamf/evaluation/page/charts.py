"""Charts of the methods: differences with intervals, and distributions."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from markupsafe import Markup

from alphamf.evaluation.page.differences import Differences
from alphamf.evaluation.page.styles import Style
from alphamf.evaluation.page.svg import INK, chart, colour
from alphamf.evaluation.page.text import number
from alphamf.evaluation.results import Result
from alphamf.evaluation.summary import SCORES, Difference, values
from alphamf.tools.files import printable_name

_MOST_DOTS = 60
"""Maximum number of clips of a method that are drawn as single dots."""


def finite_scores(results: Iterable[Result], method: str, score: str) -> list[float]:
    """Return the finite values of a score."""
    mine = (result for result in results if result.method == method)
    return [value for value in values(mine, score) if math.isfinite(value)]


def _rows(axes: Any, styles: list[Style]) -> None:
    """Label one row per method, the first on top."""
    axes.set_yticks(range(len(styles)), [style.short_name for style in styles])
    axes.set_ylim(len(styles) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)


def _height(rows: int) -> float:
    return 0.85 + 0.27 * max(rows, 2)


def differences(found: Differences, rival: str) -> list[Markup]:
    """Draw the difference of each score to `rival`, with intervals.

    Oracles and the input, which are far off, are drawn only if there are no other methods.
    """
    drawn = {style: each for style, each in found.items() if style.competes} or found
    charts = []
    for score in SCORES:
        known = {style: each[score] for style, each in drawn.items() if score in each}
        known = {style: each for style, each in known.items() if math.isfinite(each.mean)}
        if known:
            charts.append(_difference(score, known, rival))
    return charts


def _difference(score: str, found: dict[Style, Difference], rival: str) -> Markup:
    about = SCORES[score]

    def paint(axes: Any) -> None:
        axes.axvline(0, color=INK, linewidth=0.9)
        _rows(axes, list(found))
        for row, (style, each) in enumerate(found.items()):
            shade = colour(style.colour)
            axes.plot([each.low, each.high], [row, row], color=shade, solid_capstyle="butt")
            axes.plot([each.mean], [row], style.marker, color=shade)
        axes.margins(x=0.08)
        axes.set(title=about.label, xlabel=f"difference to {printable_name(rival)}" + _unit(score))

    described = "; ".join(
        f"{style.method} {number(each.mean, about.decimals, signed=True)}, interval "
        f"{number(each.low, about.decimals)} to {number(each.high, about.decimals)}"
        for style, each in found.items()
    )
    return chart(paint, f"{about.label}, difference to {rival}: {described}.", _height(len(found)))


def _unit(score: str) -> str:
    unit = SCORES[score].unit
    return f", {unit}" if unit else ""


def boxes(results: list[Result], styles: dict[str, Style]) -> list[Markup]:
    """Draw how SI-SDR gain, PESQ and ESTOI are distributed over the clips."""
    charts = []
    for score in ("si_sdr_gain", "pesq", "estoi"):
        found = {
            style: np.sort(finite_scores(results, style.method, score))
            for style in styles.values()
            # The input's gain is zero by definition.
            if style.kind != "input" or score != "si_sdr_gain"
        }
        found = {style: each for style, each in found.items() if len(each)}
        if found:
            charts.append(_boxes(score, found))
    return charts


def _boxes(score: str, found: dict[Style, Any]) -> Markup:
    quartiles = {style: np.percentile(each, [25, 50, 75]) for style, each in found.items()}

    def paint(axes: Any) -> None:
        rng = np.random.default_rng(0)
        if score == "si_sdr_gain":
            axes.axvline(0, color=INK, linewidth=0.9)
        _rows(axes, list(found))
        for row, (style, each) in enumerate(found.items()):
            low, middle, high = quartiles[style]
            shade = colour(style.colour)
            axes.plot([each[0], each[-1]], [row, row], color=shade, linewidth=1)
            axes.barh(row, high - low, 0.56, low, color=shade, alpha=0.25)
            axes.barh(row, high - low, 0.56, low, color="none", edgecolor=shade)
            axes.plot([middle, middle], [row - 0.28, row + 0.28], color=shade, linewidth=2.4)
            if len(each) <= _MOST_DOTS:
                place = row + rng.uniform(-0.2, 0.2, len(each))
                axes.plot(each, place, ".", color=shade, markersize=3.5)
        axes.set(title=SCORES[score].label, xlabel=SCORES[score].heading)

    decimals = SCORES[score].decimals
    described = "; ".join(
        f"{style.method} {number(middle, decimals)}, {number(low, decimals)} to "
        f"{number(high, decimals)}"
        for style, (low, middle, high) in quartiles.items()
    )
    label = f"{SCORES[score].label}, median and middle half of the clips: {described}."
    return chart(paint, label, _height(len(found)))
