"""Charts as inline SVG, with real text and the theme's colours."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any

from markupsafe import Markup

from alphamf.tools import libraries
from alphamf.tools.files import printable_name

# Placeholders that no chart uses otherwise; the style sheet has their light and dark colours.
INK, LINE, MUTED, PAPER = "#0a0c00", "#0a0c01", "#0a0c02", "#0a0c03"
_THEME = {INK: "--ink", LINE: "--line", MUTED: "--muted", PAPER: "--paper"}
_METHOD, _METHODS = "#0a0b", {"input": 0x80, "oracle": 0x81}

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
    return f"{_METHOD}{_METHODS[name] if name in _METHODS else int(name):02x}"


def chart(paint: Callable[[Any], None], alternative: str, height: float = 2.9) -> Markup:
    """Draw a chart."""
    rc_context = libraries.load("matplotlib").rc_context
    FigureCanvasSVG = libraries.load("matplotlib.backends.backend_svg").FigureCanvasSVG
    Figure = libraries.load("matplotlib.figure").Figure

    alternative = printable_name(alternative)
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
    """Return matplotlib's document as an element of the page, in its colours and its font."""
    from xml.etree import ElementTree

    root = ElementTree.fromstring(document)
    for element in root.iter():
        # In HTML the elements need no namespaces; names of groups would not be unique in the page.
        element.tag = element.tag.rpartition("}")[2]
        kept = {name.rpartition("}")[2]: value for name, value in element.items()}
        if element.tag == "g":
            kept.pop("id", None)
        if "style" in kept:
            kept["style"] = _themed(kept["style"])
        element.attrib = kept
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-label": alternative}
    return Markup(ElementTree.tostring(root, encoding="unicode"))


def _themed(style: str) -> str:
    """Return declarations of CSS with variables for the placeholders, and fonts by size alone."""
    themed = []
    for declaration in style.split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        if name == "font":
            *weight, size = value.partition("px")[0].split()
            themed += [f"font-weight: {part}" for part in weight]
            name, value = "font-size", f"{size}px"
        themed.append(f"{name}: {_variable(value)}")
    return "; ".join(themed)


def _variable(value: str) -> str:
    """Return the variable of a placeholder's colour, and any other value as it is."""
    if value.startswith(_METHOD):
        number = int(value.removeprefix(_METHOD), 16)
        names = {place: f"-{name}" for name, place in _METHODS.items()}
        return f"var(--m{names.get(number, number)})"
    return f"var({_THEME[value]})" if value in _THEME else value


def shape(marker: str) -> str:
    """Return a marker as SVG path data centred at zero; all markers have the area 2."""
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
