"""Sections of a page, and wide tables as CSV."""

from __future__ import annotations

import argparse
import csv
import os
import platform
import re
import shlex
import sys
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from alphamf.errors import AlphaMFError
from alphamf.tools import tables

WIDEST = 6
"""Most columns of a table on a page; the whole of a wider one is a CSV file."""

Lines = list[list[str]]
"""Cells of a table, headings first."""


def options_of(module: str, text: str | None) -> argparse.ArgumentParser:
    """Return a parser without options yet of a command that is described by its module's text."""
    return argparse.ArgumentParser(
        f"python -m {module}",
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def run_main(main: Callable[[], None]) -> None:
    """Run a command; an AlphaMFError, such as that of a missing corpus, becomes its sentence."""
    try:
        main()
    except AlphaMFError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(2)


def caption(module: str, arguments: list[str], packages: tuple[str, ...]) -> str:
    """Return how a table was made: command, date, versions, processors."""
    command = shlex.join(["python", "-m", module, *arguments])
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    return (
        f"`{command}`, {datetime.now(UTC):%Y-%m-%d}; {versions}, "
        f"Python {platform.python_version()}; {os.cpu_count()} CPUs, one thread per process."
    )


def write_section(
    path: Path,
    name: str,
    text: str,
    *,
    columns: Collection[str] | None = (),
    stem: Path | None = None,
) -> None:
    """Replace what stands between the markers of a section, or add the section at the end.

    Parameters
    ----------
    path
        Markdown file.
    name
        Name of the section.
    text
        Its Markdown.
    columns
        Headings that stay on the page of tables wider than `WIDEST`, see `narrowed`; None: all.
    stem
        Path without suffix of the files with the whole of such tables; by default that of the
        section's name in docs/benchmarks beside `path`.
    """
    stem = stem or path.parent / "docs" / "benchmarks" / name.replace(":", "-")
    opening, closing = f"<!-- {name} -->", f"<!-- /{name} -->"
    if columns is not None:
        text = narrowed(text, columns, stem, path.parent)
    section = f"{opening}\n{text}\n{closing}"
    before = path.read_text(encoding="utf-8") if path.exists() else "# Benchmarks\n"
    pattern = re.compile(f"{re.escape(opening)}.*?{re.escape(closing)}", re.DOTALL)
    after, count = pattern.subn(lambda _: section, before)
    if not count:
        after = f"{before.rstrip()}\n\n## {name}\n\n{section}\n"
    path.write_text(after, encoding="utf-8")


def publish(
    path: Path, name: str, text: str, *, write: bool, columns: Collection[str] | None = None
) -> None:
    """Print a section, and write it into the page if asked to.

    Parameters
    ----------
    path
        Markdown file.
    name, text
        Name of the section, and its Markdown.
    write
        Whether to write it.
    columns
        As for `write_section`.
    """
    print(text)
    if write:
        write_section(path, name, text, columns=columns)


def narrowed(text: str, columns: Collection[str], stem: Path, page: Path) -> str:
    """Move tables wider than `WIDEST` to CSV files, and keep some of their columns.

    The first such table goes to STEM.csv. Those after it, such as "PESQ by noise", share their
    columns but the first, and go to STEM-groups.csv together, narrow ones that are not wanted too.

    Parameters
    ----------
    text
        Markdown with tables, blocks separated by blank lines.
    columns
        Headings to keep. A wide table whose first heading is not among them goes to its file alone.
    stem
        Path of the CSV files, without suffix.
    page
        Folder of the Markdown file, which the links start from.

    Returns
    -------
    str
        The text with narrow tables, and a line of links below the last table.
    """
    blocks: list[str] = []
    wide: list[Lines] = []
    end = 0
    for block in text.split("\n\n"):
        lines = _parsed(block)
        narrow = lines and len(lines[0]) <= WIDEST
        if not lines or (narrow and (not wide or lines[0][0] in columns)):
            blocks.append(block)
            end = len(blocks) if lines else end
            continue
        wide.append(lines)
        if lines[0][0] in columns:
            kept = [k for k, heading in enumerate(lines[0]) if heading in columns]
            chosen = [[line[k] for k in kept] for line in lines]
            blocks.append(tables.markdown(chosen[0], chosen[1:]))
        end = len(blocks)
    if wide:
        _write_table(whole := Path(f"{stem}.csv"), wide[0])
        links = f"All columns: [{whole.name}]({os.path.relpath(whole, page)})."
        if groups := wide[1:]:
            _write_table(parts := Path(f"{stem}-groups.csv"), _joined(groups))
            names = ", ".join(lines[0][0] for lines in groups)
            links += f" {names}: [{parts.name}]({os.path.relpath(parts, page)})."
        blocks.insert(end, links)
    return "\n\n".join(blocks)


def _parsed(block: str) -> Lines:
    """Return the lines of a Markdown table without its rule; nothing if it is none."""
    if not block.startswith("| "):
        return []
    lines = [line[2:-2].split(" | ") for line in block.splitlines()]
    return [[cell.replace(r"\|", "|") for cell in line] for k, line in enumerate(lines) if k != 1]


def _joined(tables_: list[Lines]) -> Lines:
    """Return one table of several, whose first headings become a column."""
    headings = ["table", "group", *tables_[0][0][1:]]
    return [headings, *([lines[0][0], *line] for lines in tables_ for line in lines[1:])]


def _write_table(path: Path, lines: Lines) -> None:
    """Write a table as CSV; a column of "mean ± error" alone becomes two."""
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = list(zip(*lines[1:], strict=True))
    split = [any(" ± " in cell and " / " not in cell for cell in column) for column in columns]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        for number, line in enumerate(lines):
            cells: list[str] = []
            for cell, both in zip(line, split, strict=True):
                mean, _, error = cell.partition(" ± ")
                error = error if number else f"error of {cell}"
                cells += [mean, error] if both else [cell]
            writer.writerow(cells)
