"""The log of a training run: a table, and a picture of its curves."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from alphamf.tools import extras
from alphamf.tools.files import atomic_file

TABLE, PICTURE = "curves.csv", "curves.png"
"""Files of a run's folder."""

COLUMNS_OF_PANELS = 3


def write(folder: Path, rows: Sequence[Mapping[str, float]]) -> None:
    """Write ``curves.csv``, and where the last row has scores, ``curves.png``."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    with (
        atomic_file(folder / TABLE, within=folder) as part,
        part.open("w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.DictWriter(file, names, restval="")
        writer.writeheader()
        writer.writerows(rows)
    if any(name.startswith("dev ") for name in rows[-1]):
        _draw(folder / PICTURE, rows, names)


def _draw(path: Path, rows: Sequence[Mapping[str, float]], names: Sequence[str]) -> None:
    """Draw one panel per quantity over the steps, with the dev clips in the same panel."""
    FigureCanvasAgg = extras.load_library("matplotlib.backends.backend_agg").FigureCanvasAgg
    Figure = extras.load_library("matplotlib.figure").Figure

    panels = list(dict.fromkeys(name.removeprefix("dev ") for name in names))
    panels = [name for name in panels if name not in ("step", "seconds")]
    lines = -(-len(panels) // COLUMNS_OF_PANELS)
    figure = Figure((4 * COLUMNS_OF_PANELS, 2.4 * lines), layout="constrained")
    FigureCanvasAgg(figure)
    for k, panel in enumerate(panels):
        axes = figure.add_subplot(lines, COLUMNS_OF_PANELS, k + 1)
        for name, style in ((panel, "-"), (f"dev {panel}", "o-")):
            points = [(row["step"], row[name]) for row in rows if name in row]
            if points:
                axes.plot(*zip(*points, strict=True), style, markersize=3, label=name)
        axes.set_title(panel, fontsize="medium")
        axes.set_xlabel("step")
        if f"dev {panel}" in names and panel in names:
            axes.legend(fontsize="small")
    with atomic_file(path, within=path.parent) as part, part.open("wb") as file:
        figure.savefig(file, dpi=100, format="png")
