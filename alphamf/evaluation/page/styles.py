"""Kinds of methods, with their colours and markers in all tables and charts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from alphamf.denoising.settings import PRESETS
from alphamf.evaluation.methods import LOW
from alphamf.evaluation.results import Result
from alphamf.tools.files import printable_name

Kind = Literal["alphamf", "baseline", "oracle", "input"]

COLOURS = 8
"""Colours of methods, ``--m0`` to ``--m7`` in the style sheet; the ninth method gets the first."""

_MARKERS = "osD^vPX"
"""Markers of methods: seven, against eight colours, distinguish 56 methods."""

_OTHERS = {"input": ("input", "o"), "oracle": ("oracle", "*")}


class Style(NamedTuple):
    """Kind, colour and marker of a method."""

    method: str  # As in `Result`
    kind: Kind  # A method of alphamf, another one, one that knows the clean signal, or the input
    colour: str  # Suffix of a colour's name in the style sheet: 0 of ``--m0``
    marker: str  # A key of `alphamf.evaluation.page.svg.SHAPES`

    @property
    def shade(self) -> str:
        """The colour as a value of CSS."""
        return f"var(--m{self.colour})" if self.colour.isdigit() else f"var(--m-{self.colour})"

    @property
    def short_name(self) -> str:
        """The name, shortened to fit beside a chart."""
        name = printable_name(self.method)
        return name if len(name) <= 20 else f"{name[:12]}…{name[-7:]}"

    @property
    def competes(self) -> bool:
        """Whether the method competes for the best score: it is neither the input nor an oracle."""
        return self.kind in ("alphamf", "baseline")


def kind(method: str) -> Kind:
    """Return the kind of a method by its name."""
    name = method.partition("@")[0]
    if name == "noisy":
        return "input"
    if name.startswith("oracle"):
        return "oracle"
    return "alphamf" if name in PRESETS or name == LOW else "baseline"


def styles(results: Iterable[Result], order: Iterable[str] = ()) -> dict[str, Style]:
    """Return a style for each method that has results, those in `order` first."""
    there = dict.fromkeys(result.method for result in results)
    methods = [*(name for name in order if name in there), *there]
    found: dict[str, Style] = {}
    taken = 0
    for method in dict.fromkeys(methods):
        what = kind(method)
        if what in _OTHERS:
            found[method] = Style(method, what, *_OTHERS[what])
        else:
            found[method] = Style(
                method, what, str(taken % COLOURS), _MARKERS[taken % len(_MARKERS)]
            )
            taken += 1
    return found
