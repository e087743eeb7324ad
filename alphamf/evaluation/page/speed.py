"""Chart of quality against speed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from markupsafe import Markup

from alphamf.evaluation.page.charts import finite_scores
from alphamf.evaluation.page.styles import Style
from alphamf.evaluation.page.svg import LINE, MUTED, chart, colour
from alphamf.evaluation.page.text import number
from alphamf.evaluation.results import Result
from alphamf.evaluation.summary import costs
from alphamf.tools.tables import mean_and_error

Points = dict[Style, tuple[float, float, float]]
"""Real-time factor, mean SI-SDR in dB and its standard error (0 if unknown) of each method."""


def speed(results: list[Result], styles: dict[str, Style]) -> Markup | None:
    """Draw mean SI-SDR against real-time factor; return nothing if no method has both."""
    found: Points = {}
    inputs: dict[Style, float] = {}
    for style in styles.values():
        _, factor = costs(r for r in results if r.method == style.method)
        quality, error = mean_and_error(finite_scores(results, style.method, "si_sdr"))
        if style.competes and factor > 0 and math.isfinite(quality):
            found[style] = (factor, quality, float(np.nan_to_num(error)))
        elif style.kind == "input" and math.isfinite(quality):
            inputs[style] = quality
    if not found:
        return None
    described = "; ".join(
        f"{style.method} {number(quality, 2)} dB at {factor:.2g}"
        for style, (factor, quality, _) in found.items()
    )
    label = f"Mean SI-SDR against real-time factor: {described}."
    return chart(lambda axes: _paint(axes, found, inputs), label, 3.4)


def _paint(axes: Any, found: Points, inputs: dict[Style, float]) -> None:
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
    for style, mean in inputs.items():
        axes.axhline(mean, color=colour(style.colour), linewidth=1.2, linestyle="--")
        axes.annotate(
            f"{style.short_name} (input)", (0, mean), (3, 3), xycoords=("axes fraction", "data"),
            textcoords="offset points", color=MUTED, fontsize=8.5,
        )  # fmt: skip
    for style, (factor, quality, error) in found.items():
        axes.errorbar(
            factor, quality, error, color=colour(style.colour), marker=style.marker,
            elinewidth=0.9, markersize=7.5,
        )  # fmt: skip
    axes.margins(y=0.12)
    axes.grid(color=LINE)
    axes.set(xlabel="real-time factor", ylabel="mean SI-SDR, dB")
    _name(axes, found)


def _name(axes: Any, found: Points) -> None:
    """Write the methods' names beside their markers, moved up to avoid overlaps."""
    axes.autoscale_view()
    low, high = axes.get_ylim()
    axes.set_ylim(low, high)
    left, right = np.log(axes.get_xlim())
    written: list[tuple[float, float, float]] = []
    for style, (factor, quality, _) in sorted(found.items(), key=lambda item: item[1][1]):
        # Fractions of the axes: where the name begins and ends, and its height.
        start = (math.log(factor) - left) / (right - left)
        end, height = start + 0.05 + 0.02 * len(style.short_name), (quality - low) / (high - low)
        for begun, ended, level in written:
            if start < ended and begun < end:
                height = max(height, level + 0.065)
        written.append((start, end, height))
        axes.annotate(
            style.short_name, (factor, low + height * (high - low)), (8, 0),
            textcoords="offset points", va="center", annotation_clip=False,
        )  # fmt: skip
