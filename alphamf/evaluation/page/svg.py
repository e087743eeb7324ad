"""Charts as inline SVG, with real text and with colours of the theme."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from typing import Any

from markupsafe import Markup, escape

from alphamf.tools import libraries
from alphamf.tools.files import shown

# Placeholders that no chart uses otherwise; the style sheet has their light and dark colours.
INK, LINE, MUTED, PAPER = "#0a0c00", "#0a0c01", "#0a0c02", "#0a0c03"
_THEME = {INK: "--ink", LINE: "--line", MUTED: "--muted", PAPER: "--paper"}
_METHODS = {"input": 0x80, "oracle": 0x81}

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    # File and method names may hold dollar signs.
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "lines.linewidth": 1.6,
    "lines.markersize": 6,
}

WIDTH = 4.7
"""Inches of a chart; the page shows it as wide as a phone or more."""


def colour(name: str) -> str:
    """Return the placeholder of a method's colour, given its `Style.colour`."""
    return f"#0a0b{_METHODS[name] if name in _METHODS else int(name):02x}"


def chart(paint: Callable[[Any], None], alternative: str, height: float = 2.9) -> Markup:
    """Draw a chart.

    Parameters
    ----------
    paint
        Called with matplotlib axes, draws on them.
    alternative
        Text alternative for readers who do not see the chart.
    height
        In inches.

    Returns
    -------
    Markup
        An ``svg`` element.
    """
    rc_context = libraries.load("matplotlib").rc_context
    FigureCanvasSVG = libraries.load("matplotlib.backends.backend_svg").FigureCanvasSVG
    Figure = libraries.load("matplotlib.figure").Figure

    alternative = shown(alternative)
    # Elements of all charts share one page: the salt tells their names apart.
    with rc_context({**_STYLE, "svg.hashsalt": alternative}):
        figure = Figure(figsize=(WIDTH, height), layout="constrained", facecolor="none")
        FigureCanvasSVG(figure)
        axes = figure.subplots()
        axes.set_facecolor("none")
        paint(axes)
        buffer = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        with warnings.catch_warnings():
            # The browser has the letters that matplotlib's font lacks.
            warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)
            figure.savefig(buffer, format="svg", metadata=nothing, facecolor="none")
        figure.clear()
    return _inline(buffer.getvalue(), alternative)


def _inline(document: str, alternative: str) -> Markup:
    _, _, body = document.partition("<svg")
    head, _, body = body.partition(">")
    box = re.search(r'viewBox="[^"]*"', head)
    body = re.sub(r'<g id="[^"]*"', "<g", body)
    # The page's font; only the size is the chart's own.
    body = re.sub(r"font: (?:(\d+) )?(\S*px)[^;\"]*", r"font-weight: \1; font-size: \2", body)
    body = re.sub(r'style="[^"]*"', lambda style: _themed(style[0]), body)
    opening = f'<svg {box[0] if box else ""} role="img" aria-label="{escape(alternative)}">'
    return Markup(opening + body)


def _themed(style: str) -> str:
    for placeholder, variable in _THEME.items():
        style = style.replace(placeholder, f"var({variable})")
    style = re.sub(r"#0a0b80", "var(--m-input)", style)
    style = re.sub(r"#0a0b81", "var(--m-oracle)", style)
    return re.sub(r"#0a0b(\w\w)", lambda found: f"var(--m{int(found[1], 16)})", style)


def shape(marker: str) -> str:
    """Return a marker as the data of an SVG path around zero; all have the same area, 2."""
    import numpy as np

    MarkerStyle = libraries.load("matplotlib.markers").MarkerStyle

    style = MarkerStyle(marker)
    path = style.get_path().transformed(style.get_transform())
    corners = np.asarray(path.to_polygons()[0])
    x, y = corners.T
    area = abs(x @ np.roll(y, 1) - y @ np.roll(x, 1)) / 2
    # Matplotlib's y grows upwards.
    corners = corners * [1, -1] * np.sqrt(2 / area)
    return "M" + "L".join(f"{x:.2f} {y:.2f}" for x, y in corners) + "Z"
