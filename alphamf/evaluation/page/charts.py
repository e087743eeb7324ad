"""Charts of the methods: differences with intervals, distributions, scores by SNR, and speed."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup, escape

from alphamf.evaluation.page.tables import Differences, Style, number
from alphamf.evaluation.summary import SCORES, Difference, Result, costs, groups, values
from alphamf.tools.files import printable_name
from alphamf.tools.tables import mean_and_error

WIDTH = 338
"""Width of a chart in units of its ``viewBox``, which the page scales."""

SIZE, LETTER = 9.5, 5.6
"""Size of the text, and about the width of a letter, in units of the ``viewBox``."""

TOP, BOTTOM, RIGHT = 22.0, 34.0, 6.0
"""Margins: for the title above, for the x axis's numbers and name below, and at the right."""

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
    """Return multiples of 1, 2, 2.5 or 5 times a power of ten in a range, at most `most` + 1."""
    unit = 10.0 ** math.floor(math.log10((high - low) / most))
    steps = (unit * factor for factor in (1, 2, 2.5, 5, 10, 20))
    step = next(each for each in steps if (high - low) / each <= most)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [k * step for k in range(first, last + 1)]


class Chart:
    """A chart, `height` times 72 high, with axes of ranges `x` (logarithmic with `log`) and `y`."""

    def __init__(
        self, title: str, xlabel: str, height: float, x: Point, y: Point, *,
        left: float, log: bool = False,
    ) -> None:  # fmt: skip
        self.x: Point = x
        self.y: Point = y
        self.log: bool = log
        self.left: float = left
        self.height: float = 72 * height
        self._parts: list[str] = []
        self.text(title, left, 13, f"font-size: {SIZE + 1}px; font-weight: bold", INK)
        middle = (left + WIDTH - RIGHT) / 2
        self.text(xlabel, middle, self.height - 5, "text-anchor: middle", INK)

    def place(self, x: float, y: float) -> Point:
        """Convert a point from the units of the axes to those of the ``viewBox``."""
        (low, high), value = self.x, x
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(x)
        bottom, width = self.height - BOTTOM, WIDTH - RIGHT - self.left
        return (
            self.left + width * (value - low) / (high - low),
            bottom - (bottom - TOP) * (y - self.y[0]) / (self.y[1] - self.y[0]),
        )

    def text(self, text: str, x: float, y: float, style: str = "", fill: str = INK) -> None:
        """Write text, if there is any, at a place in units of the ``viewBox``."""
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
        """Draw the x axis and, with `grid`, a vertical line at each tick."""
        for tick in ticks:
            if grid:
                self.line([(tick, self.y[0]), (tick, self.y[1])], LINE, 0.6)
            place, bottom = self.place(tick, self.y[0])
            self._parts.append(f'<path d="M{place:.2f} {bottom:.2f}v3.5" {_TICK}/>')
            self.text(_number(tick, ticks, self.log), place, bottom + 13, "text-anchor: middle")
        self.line([(self.x[0], self.y[0]), (self.x[1], self.y[0])], MUTED, 0.6)

    def y_axis(self, ticks: Sequence[float], label: str = "") -> None:
        """Draw the y axis, a horizontal line at each tick, and the name `label` if not empty."""
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
        """Return the ``<svg>`` element; screen readers speak `alternative` in its place."""
        label = escape(printable_name(alternative))
        view = f'viewBox="0 0 {WIDTH} {self.height:.0f}"'
        return Markup(f'<svg {view} role="img" aria-label="{label}">{"".join(self._parts)}</svg>')


def rows(title: str, xlabel: str, names: Sequence[str], values: Iterable[float]) -> Chart:
    """Return a chart with a named row for each method, first on top; its x axis covers `values`."""
    low, high = widened(values, 0.08)
    left = 8 + LETTER * max(map(len, names))
    height = 0.85 + 0.27 * max(len(names), 2)
    chart = Chart(title, xlabel, height, (low, high), (len(names) - 0.4, -0.6), left=left)
    chart.x_axis(round_numbers(low, high, 6), grid=True)
    for row, name in enumerate(names):
        chart.text(name, left - 6, chart.place(low, row)[1] + 3.4, "text-anchor: end")
    return chart


def widened(values: Iterable[float], margin: float) -> Point:
    """Return the values' range, wider at each end by `margin` of its length (more if that is 0)."""
    found = list(values)
    low, high = min(found), max(found)
    room = margin * (high - low) or max(abs(high), 1.0) * margin
    return low - room, high + room


def _number(value: float, others: Sequence[float], each: bool = False) -> str:
    """Format a number with as many decimals as `others` need, or, if `each`, as it needs itself."""
    shown = [f"{round(other, 10):g}" for other in ([value] if each else others)]
    decimals = max(len(text.partition(".")[2]) for text in shown)
    return f"{value:.{decimals}f}".replace("-", "\N{MINUS SIGN}")


_MOST_DOTS = 60
"""Clips of a method are drawn as single dots if there are at most this many."""


def _finite(results: Iterable[Result], method: str, score: str) -> list[float]:
    mine = (result for result in results if result.method == method)
    return [value for value in values(mine, score) if math.isfinite(value)]


def differences(found: Differences, rival: str) -> list[Markup]:
    """Return a chart per score: the differences of methods to `rival`, with intervals.

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
    known = [v for each in found.values() for v in each[:3] if math.isfinite(v)]
    unit = f", {about.unit}" if about.unit else ""
    names = [style.short_name for style in found]
    chart = rows(about.label, f"difference to {rival}{unit}", names, [0.0, *known])
    chart.line([(0, -0.6), (0, len(found) - 0.4)], INK, 0.9)
    for row, (style, each) in enumerate(found.items()):
        if math.isfinite(each.low):
            chart.line([(each.low, row), (each.high, row)], style.shade)
        chart.marker(each.mean, row, style.marker, style.shade)
    described = "; ".join(
        f"{style.method} {number(each.mean, about.decimals, signed=True)}, interval "
        f"{number(each.low, about.decimals)} to {number(each.high, about.decimals)}"
        for style, each in found.items()
    )
    return chart.svg(f"{about.label}, difference to {rival}: {described}.")


def boxes(results: list[Result], styles: dict[str, Style]) -> list[Markup]:
    """Return box plots of SI-SDR gain, PESQ and ESTOI over the clips, one chart per score."""
    charts = []
    for score in ("si_sdr_gain", "pesq", "estoi"):
        found = {
            style: np.sort(_finite(results, style.method, score))
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
    rng, about = np.random.default_rng(0), SCORES[score]
    ends = [end for each in found.values() for end in (each[0], each[-1])]
    ends += [0.0] if score == "si_sdr_gain" else []
    chart = rows(about.label, about.heading, [style.short_name for style in found], ends)
    if score == "si_sdr_gain":
        chart.line([(0, -0.6), (0, len(found) - 0.4)], INK, 0.9)
    for row, (style, each) in enumerate(found.items()):
        low, middle, high = quartiles[style]
        chart.line([(each[0], row), (each[-1], row)], style.shade, 1)
        chart.box((low, row + 0.28), (high, row - 0.28), style.shade)
        chart.line([(middle, row - 0.28), (middle, row + 0.28)], style.shade, 2.4)
        if len(each) <= _MOST_DOTS:
            for value, place in zip(each, row + rng.uniform(-0.2, 0.2, len(each)), strict=True):
                chart.marker(value, place, "o", style.shade, 1.2)
    described = "; ".join(
        f"{style.method} {number(middle, about.decimals)}, {number(low, about.decimals)} to "
        f"{number(high, about.decimals)}"
        for style, (low, middle, high) in quartiles.items()
    )
    return chart.svg(f"{about.label}, median and middle half of the clips: {described}.")


Lines = dict[Style, list[tuple[float, float, float]]]
"""Points of each method: SNR in dB, mean, and standard error (0 if unknown)."""


def levels(results: list[Result], styles: dict[str, Style]) -> list[Markup]:
    """Draw mean scores against input SNR: over all noises; with several, also gains for each noise.

    With fewer than two SNRs there are no charts. Oracles are left out, because they would determine
    the scale.
    """
    drawn = [style for style in styles.values() if style.kind != "oracle"]
    known = [r for r in results if r.snr is not None]
    if len({r.snr for r in known}) < 2:
        return []
    noises = groups((r for r in known if r.noise is not None), ("noise",))
    panels = [(score, "all noises", known) for score in ("si_sdr_gain", "pesq", "estoi")]
    if len(noises) > 1:
        panels += [("si_sdr_gain", noise, some) for (noise,), some in sorted(noises.items())]
    lines = [(score, title, _lines(some, drawn, score)) for score, title, some in panels]
    # Charts of the gain have one scale, with zero in it.
    gains = [end for score, _, found in lines if score == "si_sdr_gain" for end in _ends(found)]
    return [
        _level(score, title, found, widened([0.0, *gains], 0.06))
        if score == "si_sdr_gain"
        else _level(score, title, found, widened(_ends(found), 0.05))
        for score, title, found in lines
        if found
    ]


def _ends(found: Lines) -> list[float]:
    every = (point for points in found.values() for point in points)
    return [mean + side for _, mean, error in every for side in (-error, error)]


def _lines(results: list[Result], styles: list[Style], score: str) -> Lines:
    """Return the points of each method that has scores, except the input's gain, which is zero."""
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
                found.setdefault(style, []).append((snr, mean, float(np.nan_to_num(error))))
    return found


def _level(score: str, title: str, found: Lines, y: tuple[float, float]) -> Markup:
    about = SCORES[score]
    levels = sorted({x for points in found.values() for x, *_ in points})
    across = widened(levels, 0.05)
    chart = Chart(f"{about.heading}, {title}", "input SNR, dB", 2.9, across, y, left=36)
    chart.y_axis(round_numbers(*y, 7))
    chart.x_axis(levels, grid=False)
    if score == "si_sdr_gain":
        chart.line([(across[0], 0), (across[1], 0)], INK, 0.9)
    for style, points in found.items():
        dashes = "6 3" if style.kind == "input" else ""
        chart.line([(x, mean) for x, mean, _ in points], style.shade, dashes=dashes)
        for x, mean, error in points:
            chart.line([(x, mean - error), (x, mean + error)], style.shade, 0.9)
            chart.marker(x, mean, style.marker, style.shade)
    described = "; ".join(
        f"{style.method} "
        + ", ".join(f"{number(mean, about.decimals)} at {snr:g} dB" for snr, mean, _ in points)
        for style, points in found.items()
    )
    return chart.svg(f"Mean {about.label} against SNR, {title}: {described}.")


def speed(results: list[Result], styles: dict[str, Style]) -> Markup | None:
    """Draw mean SI-SDR against real-time factor; return None if no competing method has both."""
    found: dict[Style, tuple[float, float, float]] = {}
    inputs: dict[Style, float] = {}
    for style in styles.values():
        _, factor = costs(r for r in results if r.method == style.method)
        quality, error = mean_and_error(_finite(results, style.method, "si_sdr"))
        if style.competes and factor > 0 and math.isfinite(quality):
            found[style] = (factor, quality, float(np.nan_to_num(error)))
        elif style.kind == "input" and math.isfinite(quality):
            inputs[style] = quality
    if not found:
        return None
    factors = [factor for factor, *_ in found.values()]
    # Room for the names right of the dots.
    across = min(*factors, 1) / 2, max(*factors, 1) * 8
    up = widened([*_ends({style: [each] for style, each in found.items()}), *inputs.values()], 0.12)
    chart = Chart("", "real-time factor", 3.4, across, up, left=40, log=True)
    chart.y_axis(round_numbers(*up, 7), "mean SI-SDR, dB")
    ends = math.ceil(math.log10(across[0])), math.floor(math.log10(across[1]))
    chart.x_axis([10.0**k for k in range(ends[0], ends[1] + 1)], grid=True)
    chart.line([(1, up[0]), (1, up[1])], MUTED, 0.9, "1 2")
    x, y = chart.place(1, up[0])
    chart.text("real time", x + 3, y - 3, "font-size: 8.5px", MUTED)
    for style, mean in inputs.items():
        chart.line([(across[0], mean), (across[1], mean)], style.shade, 1.2, "6 3")
        x, y = chart.place(across[0], mean)
        chart.text(f"{style.short_name} (input)", x + 3, y - 3, "font-size: 8.5px", MUTED)
    taken: list[tuple[float, float, float]] = []
    for style, (factor, quality, error) in sorted(found.items(), key=lambda item: item[1][1]):
        chart.line([(factor, quality - error), (factor, quality + error)], style.shade, 0.9)
        chart.marker(factor, quality, style.marker, style.shade, 4.6)
        x, y = chart.place(factor, quality)
        # The name right of the marker, or left of it, above those that it would cover.
        length = 8 + LETTER * len(style.short_name)
        right = x + length < WIDTH
        start, end = (x, x + length) if right else (x - length, x)
        y = min([y, *(at - 12 for begun, until, at in taken if start < until and begun < end)])
        taken.append((start, end, y))
        anchor = "" if right else "text-anchor: end"
        chart.text(style.short_name, x + (8 if right else -8), y + 3.4, anchor)
    described = "; ".join(
        f"{style.method} {number(quality, 2)} dB at {factor:.2g}"
        for style, (factor, quality, _) in found.items()
    )
    return chart.svg(f"Mean SI-SDR against real-time factor: {described}.")
