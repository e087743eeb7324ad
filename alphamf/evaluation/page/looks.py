"""What a method is, and how it looks in every table and chart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from alphamf.denoising.settings import PRESETS
from alphamf.evaluation.runner import Result
from alphamf.tools.files import shown

Kind = Literal["alphamf", "baseline", "oracle", "input"]

COLOURS = 8
"""Colours of methods, ``--m0`` to ``--m7`` in the style sheet; the ninth method gets the first."""

_MARKERS = "osD^vPX"
"""Shapes of methods. Seven against eight colours, so that 56 methods look different."""

_OTHERS = {"input": ("input", "o"), "oracle": ("oracle", "*")}


class Look(NamedTuple):
    """A method and its look.

    Attributes
    ----------
    method
        As in `Result`.
    kind
        A preset of alphamf, another method, one that is told the clean signal, or none at all.
    colour
        End of a colour's name in the style sheet, ``--m0``.
    marker
        As matplotlib names it.
    """

    method: str
    kind: Kind
    colour: str
    marker: str

    @property
    def short(self) -> str:
        """The name, cut to what has room beside a chart."""
        name = shown(self.method)
        return name if len(name) <= 20 else f"{name[:12]}…{name[-7:]}"

    @property
    def competes(self) -> bool:
        """Whether it may be called best: it does something, without the clean signal."""
        return self.kind in ("alphamf", "baseline")


def kind(method: str) -> Kind:
    """Return what a method is by its name."""
    name = method.partition("@")[0]
    if name == "noisy":
        return "input"
    if name.startswith("oracle"):
        return "oracle"
    return "alphamf" if name in PRESETS else "baseline"


def looks(results: Iterable[Result], order: Iterable[str] = ()) -> dict[str, Look]:
    """Return a look for each method that has results, those in `order` first."""
    there = dict.fromkeys(result.method for result in results)
    methods = [*(name for name in order if name in there), *there]
    found: dict[str, Look] = {}
    taken = 0
    for method in dict.fromkeys(methods):
        what = kind(method)
        if what in _OTHERS:
            found[method] = Look(method, what, *_OTHERS[what])
        else:
            found[method] = Look(
                method, what, str(taken % COLOURS), _MARKERS[taken % len(_MARKERS)]
            )
            taken += 1
    return found
