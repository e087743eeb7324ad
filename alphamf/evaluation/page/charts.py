"""Charts of the methods: differences with intervals, distributions, quality against speed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from markupsafe import Markup

from alphamf.evaluation.page.looks import Look
from alphamf.evaluation.page.svg import INK, LINE, MUTED, chart, colour
from alphamf.evaluation.page.tables import Differences
from alphamf.evaluation.page.text import number
from alphamf.evaluation.runner import Result
from alphamf.evaluation.summary import SCORES, Difference, values
from alphamf.tools.files import shown
from alphamf.tools.tables import mean_and_error

_MOST_DOTS = 60
"""Clips of a method that are drawn one by one."""


def _scores(results: Iterable[Result], method: str, score: str) -> list[float]:
    mine = (result for result in results if result.method == method)
    return [value for value in values(mine, score) if math.isfinite(value)]


def _rows(axes: Any, looks: list[Look]) -> None:
    """Name a row for each method, the first on top."""
    axes.set_yticks(range(len(looks)), [look.short for look in looks])
    axes.set_ylim(len(looks) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)


def _height(rows: int) -> float:
    return 0.85 + 0.27 * max(rows, 2)


def differences(found: Differences, rival: str) -> list[Markup]:
    """Draw for each score how far the methods are above `rival`, with intervals.

    Oracles and the input, which are far off, are drawn only where there is nothing else.
    """
    drawn = {look: each for look, each in found.items() if look.competes} or found
    charts = []
    for score in SCORES:
        known = {look: each[score] for look, each in drawn.items() if score in each}
        known = {look: each for look, each in known.items() if math.isfinite(each.mean)}
        if known:
            charts.append(_difference(score, known, rival))
    return charts


def _difference(score: str, found: dict[Look, Difference], rival: str) -> Markup:
    about = SCORES[score]

    def paint(axes: Any) -> None:
        axes.axvline(0, color=INK, linewidth=0.9)
        _rows(axes, list(found))
        for row, (look, each) in enumerate(found.items()):
            shade = colour(look.colour)
            axes.plot([each.low, each.high], [row, row], color=shade, solid_capstyle="butt")
            axes.plot([each.mean], [row], look.marker, color=shade)
        axes.margins(x=0.08)
        axes.set(title=about.label, xlabel=f"difference to {shown(rival)}" + _unit(score))

    said = "; ".join(
        f"{look.method} {number(each.mean, about.decimals, signed=True)}, interval "
        f"{number(each.low, about.decimals)} to {number(each.high, about.decimals)}"
        for look, each in found.items()
    )
    return chart(paint, f"{about.label}, difference to {rival}: {said}.", _height(len(found)))


def _unit(score: str) -> str:
    unit = SCORES[score].unit
    return f", {unit}" if unit else ""


def boxes(results: list[Result], looks: dict[str, Look]) -> list[Markup]:
    """Draw how SI-SDR gain, PESQ and ESTOI are distributed over the clips."""
    charts = []
    for score in ("si_sdr_gain", "pesq", "estoi"):
        found = {
            look: np.sort(_scores(results, look.method, score))
            for look in looks.values()
            # The input's gain is zero by definition.
            if look.kind != "input" or score != "si_sdr_gain"
        }
        found = {look: each for look, each in found.items() if len(each)}
        if found:
            charts.append(_boxes(score, found))
    return charts


def _boxes(score: str, found: dict[Look, Any]) -> Markup:
    quartiles = {look: np.percentile(each, [25, 50, 75]) for look, each in found.items()}

    def paint(axes: Any) -> None:
        rng = np.random.default_rng(0)
        if score == "si_sdr_gain":
            axes.axvline(0, color=INK, linewidth=0.9)
        _rows(axes, list(found))
        for row, (look, each) in enumerate(found.items()):
            low, middle, high = quartiles[look]
            shade = colour(look.colour)
            axes.plot([each[0], each[-1]], [row, row], color=shade, linewidth=1)
            axes.barh(row, high - low, 0.56, low, color=shade, alpha=0.25)
            axes.barh(row, high - low, 0.56, low, color="none", edgecolor=shade)
            axes.plot([middle, middle], [row - 0.28, row + 0.28], color=shade, linewidth=2.4)
            if len(each) <= _MOST_DOTS:
                place = row + rng.uniform(-0.2, 0.2, len(each))
                axes.plot(each, place, ".", color=shade, markersize=3.5)
        axes.set(title=SCORES[score].label, xlabel=SCORES[score].heading)

    decimals = SCORES[score].decimals
    said = "; ".join(
        f"{look.method} {number(middle, decimals)}, {number(low, decimals)} to "
        f"{number(high, decimals)}"
        for look, (low, middle, high) in quartiles.items()
    )
    label = f"{SCORES[score].label}, median and middle half of the clips: {said}."
    return chart(paint, label, _height(len(found)))


def speed(results: list[Result], looks: dict[str, Look]) -> Markup | None:
    """Draw mean SI-SDR against real-time factor, or nothing where no method has both."""
    found = {}
    inputs = {}
    for look in looks.values():
        factor, _ = mean_and_error(
            r.real_time_factor
            for r in results
            if r.method == look.method and r.real_time_factor is not None
        )
        quality, error = mean_and_error(_scores(results, look.method, "si_sdr"))
        if look.competes and factor > 0 and math.isfinite(quality):
            found[look] = (factor, quality, float(np.nan_to_num(error)))
        elif look.kind == "input" and math.isfinite(quality):
            inputs[look] = quality
    if not found:
        return None

    def paint(axes: Any) -> None:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        factors = [factor for factor, *_ in found.values()]
        # Room for the names right of the dots.
        axes.set_xlim(min(*factors, 1) / 2, max(*factors, 1) * 8)
        axes.axvline(1, color=MUTED, linewidth=0.9, linestyle=":")
        axes.annotate(
            "real time", (1, 0), (3, 3), xycoords=("data", "axes fraction"),
            textcoords="offset points", color=MUTED, fontsize=8.5,
        )  # fmt: skip
        for look, mean in inputs.items():
            axes.axhline(mean, color=colour(look.colour), linewidth=1.2, linestyle="--")
            axes.annotate(
                f"{look.short} (input)", (0, mean), (3, 3), xycoords=("axes fraction", "data"),
                textcoords="offset points", color=MUTED, fontsize=8.5,
            )  # fmt: skip
        for look, (factor, quality, error) in found.items():
            axes.errorbar(
                factor, quality, error, color=colour(look.colour), marker=look.marker,
                elinewidth=0.9, markersize=7.5,
            )  # fmt: skip
        axes.margins(y=0.12)
        axes.grid(color=LINE)
        axes.set(xlabel="real-time factor", ylabel="mean SI-SDR, dB")
        _name(axes, found)

    said = "; ".join(
        f"{look.method} {number(quality, 2)} dB at {factor:.2g}"
        for look, (factor, quality, _) in found.items()
    )
    return chart(paint, f"Mean SI-SDR against real-time factor: {said}.", 3.4)


def _name(axes: Any, found: dict[Look, tuple[float, float, float]]) -> None:
    """Write the methods' names beside their dots, moved up where they would overlap."""
    axes.autoscale_view()
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)
    left, right = np.log(axes.get_xlim())
    written: list[tuple[float, float, float]] = []
    for look, (factor, quality, _) in sorted(found.items(), key=lambda item: item[1][1]):
        # Shares of the axes: where the name begins and ends, and its height.
        start = (math.log(factor) - left) / (right - left)
        end, height = start + 0.05 + 0.02 * len(look.short), (quality - low) / (high - low)
        for begun, ended, level in written:
            if start < ended and begun < end:
                height = max(height, level + 0.065)
        written.append((start, end, height))
        axes.annotate(
            look.short, (factor, low + height * (high - low)), (8, 0),
            textcoords="offset points", va="center", annotation_clip=False,
        )  # fmt: skip
