"""Charts as inline SVG, with real text in the colours of the page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

from alphamf.tools.files import printable_name

WIDTH = 338
"""Width of a chart; the page shows it as wide as a phone or more."""

SIZE, LETTER = 9.5, 5.6
"""Size of the text, and about the width of a letter."""

TOP, BOTTOM, RIGHT = 22.0, 34.0, 6.0
"""Room for the title, for the numbers and the name of an axis, and at the right."""

INK, LINE, MUTED = "var(--ink)", "var(--line)", "var(--muted)"

_TICK = f'style="stroke: {MUTED}; stroke-width: .8"'

Point = tuple[float, float]


SHAPES = {
    "o": "M.798 0A.798 .798 0 1 0-.798 0A.798 .798 0 1 0 .798 0Z",
    "s": "M-.707-.707h1.414v1.414h-1.414Z",
    "D": "M0-1L1 0L0 1L-1 0Z",
    "^": "M0-1L1 1h-2Z",
    "v": "M0 1L-1-1h2Z",
    "P": "M-.316-.949h.632v.633h.633v.632h-.633v.633h-.632v-.633h-.633v-.632h.633Z",
    "X": "M0-.447L.447-.894L.894-.447L.447 0L.894 .447L.447 .894L0 .447L-.447 .894"
    "L-.894 .447L-.447 0L-.894-.447L-.447-.894Z",
    "*": "M0-1.33L.3-.412L1.27-.412L.485 .158L.785 1.08L0 .51L-.785 1.08L-.485 .158"
    "L-1.27-.412L-.3-.412Z",
}
"""Markers as SVG path data; all have the area 2."""


def round_numbers(low: float, high: float, most: int) -> list[float]:
    """Return the multiples of 1, 2, 2.5 or 5 times a power of ten in a range, at most `most`."""
    unit = 10.0 ** math.floor(math.log10((high - low) / most))
    steps = (unit * factor for factor in (1, 2, 2.5, 5, 10, 20))
    step = next(each for each in steps if (high - low) / each <= most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


class Chart:
    """A chart with two axes: methods draw into it, `svg` returns the element."""

    def __init__(
        self, title: str, xlabel: str, height: float, x: Point, y: Point, *,
        left: float, log: bool = False,
    ) -> None:  # fmt: skip
        self.x, self.y, self.log = x, y, log
        self.left, self.height = left, 72 * height
        self._parts: list[str] = []
        self.text(title, left, 13, f"font-size: {SIZE + 1}px; font-weight: bold", INK)
        middle = (left + WIDTH - RIGHT) / 2
        self.text(xlabel, middle, self.height - 5, "text-anchor: middle", INK)

    def place(self, x: float, y: float) -> Point:
        """Return where a point of the axes is in the picture."""
        (low, high), value = self.x, x
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(x)
        bottom, width = self.height - BOTTOM, WIDTH - RIGHT - self.left
        return (
            self.left + width * (value - low) / (high - low),
            bottom - (bottom - TOP) * (y - self.y[0]) / (self.y[1] - self.y[0]),
        )

    def text(self, text: str, x: float, y: float, style: str = "", fill: str = INK) -> None:
        """Write text, if there is any, at a place of the picture."""
        if not text:
            return
        shown = escape(printable_name(text))
        look = f"font-size: {SIZE}px; fill: {fill}; {style}"
        self._parts.append(f'<text x="{x:.1f}" y="{y:.1f}" style="{look}">{shown}</text>')

    def line(
        self, points: Iterable[Point], colour: str, width: float = 1.6, dashes: str = ""
    ) -> None:
        """Draw a line through points of the axes."""
        path = "L".join("{:.2f} {:.2f}".format(*self.place(*each)) for each in points)
        style = f"fill: none; stroke: {colour}; stroke-width: {width}"
        style += f"; stroke-dasharray: {dashes}" if dashes else ""
        self._parts.append(f'<path d="M{path}" style="{style}"/>')

    def box(self, low: Point, high: Point, colour: str) -> None:
        """Draw a rectangle between two corners in the axes."""
        (left, bottom), (right, top) = self.place(*low), self.place(*high)
        size = f'width="{right - left:.2f}" height="{abs(bottom - top):.2f}"'
        style = f"fill: {colour}; fill-opacity: .25; stroke: {colour}"
        at = f'x="{left:.2f}" y="{min(top, bottom):.2f}"'
        self._parts.append(f'<rect {at} {size} style="{style}"/>')

    def marker(self, x: float, y: float, kind: str, colour: str, size: float = 3.8) -> None:
        """Draw a marker at a point of the axes."""
        px, py = self.place(x, y)
        move = f'transform="translate({px:.2f} {py:.2f}) scale({size})"'
        self._parts.append(f'<path d="{SHAPES[kind]}" {move} style="fill: {colour}"/>')

    def x_axis(self, ticks: Sequence[float], *, grid: bool) -> None:
        """Draw the lower axis, and perhaps a line above each tick."""
        for tick in ticks:
            if grid:
                self.line([(tick, self.y[0]), (tick, self.y[1])], LINE, 0.6)
            place, bottom = self.place(tick, self.y[0])
            self._parts.append(f'<path d="M{place:.2f} {bottom:.2f}v3.5" {_TICK}/>')
            self.text(_number(tick, ticks, self.log), place, bottom + 13, "text-anchor: middle")
        self.line([(self.x[0], self.y[0]), (self.x[1], self.y[0])], MUTED, 0.6)

    def y_axis(self, ticks: Sequence[float], label: str = "") -> None:
        """Draw the left axis, with a line at each tick, and perhaps its name."""
        middle = (TOP + self.height - BOTTOM) / 2
        turned = f"text-anchor: middle; transform: translate(9px, {middle:.0f}px) rotate(-90deg)"
        self.text(label, 0, 0, turned)
        for tick in ticks:
            self.line([(self.x[0], tick), (self.x[1], tick)], LINE, 0.6)
            left, place = self.place(self.x[0], tick)
            self._parts.append(f'<path d="M{left:.2f} {place:.2f}h-3.5" {_TICK}/>')
            self.text(_number(tick, ticks), left - 6, place + 3.4, "text-anchor: end")
        self.line([(self.x[0], self.y[0]), (self.x[0], self.y[1])], MUTED, 0.6)

    def svg(self, alternative: str) -> Markup:
        """Return the element, with a sentence for those who cannot see it."""
        label = escape(printable_name(alternative))
        view = f'viewBox="0 0 {WIDTH} {self.height:.0f}"'
        return Markup(f'<svg {view} role="img" aria-label="{label}">{"".join(self._parts)}</svg>')


def rows(title: str, xlabel: str, names: Sequence[str], values: Iterable[float]) -> Chart:
    """Return a chart with a named row for each method, the first on top, that covers values."""
    low, high = widened(values, 0.08)
    left = 8 + LETTER * max(map(len, names))
    height = 0.85 + 0.27 * max(len(names), 2)
    chart = Chart(title, xlabel, height, (low, high), (len(names) - 0.4, -0.6), left=left)
    chart.x_axis(round_numbers(low, high, 6), grid=True)
    for row, name in enumerate(names):
        chart.text(name, left - 6, chart.place(low, row)[1] + 3.4, "text-anchor: end")
    return chart


def widened(values: Iterable[float], margin: float) -> Point:
    """Return the range of values with a margin at both ends."""
    found = list(values)
    low, high = min(found), max(found)
    room = margin * (high - low) or max(abs(high), 1.0) * margin
    return low - room, high + room


def _number(value: float, others: Sequence[float], each: bool = False) -> str:
    """Return a number with as many decimals as others of its axis, unless `each` has its own."""
    shown = [f"{round(other, 10):g}" for other in ([value] if each else others)]
    decimals = max(len(text.partition(".")[2]) for text in shown)
    return f"{value:.{decimals}f}".replace("-", "\N{MINUS SIGN}")
