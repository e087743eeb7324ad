r"""Measure single, cheap ideas for better denoising, each against the preset ``plain``.

For example::

    python -m benchmarks.ideas power floor
    python -m benchmarks.ideas --models 32ms.npz,128ms.npz --write

Clips are 40 of NOIZEUS's train sentences at 5 dB, five in each noise. An idea is a function of a
clip and of the output of ``plain``, the preset without networks; ``settings``,
``windows``, ``again`` and ``network`` run other chains, and only ``network`` has them refined. The
table has the mean differences from ``plain`` on the same clips, with standard errors over the
clips; in bold, those beyond three of them. With ``--write`` it goes to docs/log/quality.md.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

from alphamf.audio.reader import read
from alphamf.errors import AlphaMFError
from alphamf.tools import pool, tables
from benchmarks.idea_list import IDEAS, SEED, Case
from benchmarks.pairs import files
from benchmarks.report import caption, options_of, publish

PAGE = Path(__file__).parents[1] / "docs" / "log" / "quality.md"
CLIPS = 40
SCORES = (("SI-SDR dB", 2), ("PESQ", 3), ("ESTOI", 4))
"""Headings and decimals."""

Scores = dict[tuple[str, str], list[float]]
"""Of a clip, by idea and setting; two empty strings stand for ``plain`` itself."""


def measure(names: list[str], models: list[Path], pair: tuple[Path, Path]) -> Scores:
    """Return the scores of a clip.

    Parameters
    ----------
    names
        Of ideas.
    models
        Files of dictionaries for other windows.
    pair
        The clean and the noisy file.
    """
    (clean, _), (noisy, _) = (read(path) for path in pair)
    case = Case(clean[:, 0], noisy[:, 0], models)
    scores = {("", ""): case.scores(case.base)}
    for name in names:
        for setting, sound in IDEAS[name](case).items():
            scores[name, setting] = case.scores(sound)
    return scores


def table(clips: list[Scores]) -> str:
    """Return the table of differences from the base, which is its first line."""
    base = np.array([clip["", ""] for clip in clips])
    lines = []
    for idea, setting in clips[0]:
        values = np.array([clip[idea, setting] for clip in clips])
        line = ["plain", "itself, no difference"] if not idea else [idea, setting]
        for column, (_, decimals) in zip((values - base if idea else base).T, SCORES, strict=True):
            average, error = tables.mean_and_error(column)
            sign = "+" if idea else ""
            cell = tables.with_error(average, error, decimals, sign)
            line.append(f"**{cell}**" if idea and abs(average) > 3 * error else cell)
        lines.append(line)
    return tables.markdown(["idea", "setting", *(heading for heading, _ in SCORES)], lines)


def clips() -> list[tuple[Path, Path]]:
    """Return the clean and the noisy file of each clip, evenly spaced in the list of all."""
    every = files(split="train", snrs=["5"])
    return [every[k] for k in np.linspace(0, len(every) - 1, CLIPS).astype(int)]


def main() -> None:
    """Run the command line, and print or write its table."""
    parser = options_of("benchmarks.ideas", __doc__)
    known = ", ".join(IDEAS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {known} (default: all)")
    parser.add_argument("--models", metavar="FILE,FILE", help="dictionaries of other windows")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes (default 1)")
    parser.add_argument(
        "--write", action="store_true", help="put the table into docs/log/quality.md"
    )
    asked = parser.parse_args()
    models = [Path(name).resolve() for name in asked.models.split(",")] if asked.models else []
    names = asked.names or [name for name in IDEAS if models or name != "windows"]
    if unknown := set(names) - set(IDEAS):
        parser.error(f"there is no {', '.join(sorted(unknown))}: ideas are {known}")
    if "windows" in names and not models:
        parser.error("windows needs --models")
    try:
        chosen = clips()
    except AlphaMFError as error:
        parser.error(str(error))
    found = pool.results(partial(measure, names, models), chosen, workers=asked.jobs)
    done = list(track(found, "Clips", len(chosen), console=Console(stderr=True)))
    made = caption("benchmarks.ideas", sys.argv[1:], ("alphamf", "numpy", "pesq", "pystoi"))
    text = f"{table(done)}\n\n{CLIPS} clips, seed {SEED}. {made}"
    publish(PAGE, "ideas", text, write=asked.write)


if __name__ == "__main__":
    main()
