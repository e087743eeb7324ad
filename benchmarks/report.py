"""Options of commands, how a table was made, and sections of a page."""

import argparse
import os
import platform
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from inspect import signature, unwrap
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, get_args, get_origin

from alphamf.errors import AlphaMFError
from alphamf.tools import tables

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "data" / "sample-noisy.wav"
RELIABILITY = ROOT / "docs" / "reliability.md"


def run_main(main: Callable[..., Any] | Mapping[str, Callable[..., Any]]) -> None:
    """Run a command: a function of its module, or the one of some that the command line names.

    Arguments that can only be given by name are options; `Annotated` has choices. Lines of a table
    that it returns, headings first, are printed. An AlphaMFError, such as that of a missing corpus,
    becomes its sentence.
    """
    parts = main if isinstance(main, Mapping) else {}
    module = unwrap(next(iter(parts.values()), main)).__globals__  # type: ignore[arg-type]
    sys.argv[0] = module["__spec__"].name
    parser = argparse.ArgumentParser(
        f"python -m {sys.argv[0]}",
        description=module["__doc__"],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if parts:
        named = parser.add_subparsers(dest="part", required=True)
        for name, part in parts.items():
            text = part.__doc__ or ""
            _add_arguments(named.add_parser(name, description=text, help=text.split(".")[0]), part)
    else:
        _add_arguments(parser, main)  # type: ignore[arg-type]
    words = vars(parser.parse_args())
    try:
        lines = (parts[words.pop("part")] if parts else main)(**words)  # type: ignore[operator]
    except AlphaMFError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(2)
    if lines:
        print(f"{tables.markdown(lines[0], lines[1:])}\n\n{caption()}")


def _add_arguments(parser: argparse.ArgumentParser, function: Callable[..., Any]) -> None:
    for each in signature(function).parameters.values():
        kind, choices = each.annotation, None
        if get_origin(kind) is Annotated:
            kind, choices = get_args(kind)
        several = get_origin(kind) not in (None, UnionType)
        kind = (*get_args(kind), kind)[0]  # that of the items, and without None
        needed = each.default is each.empty
        flag = f"--{each.name.replace('_', '-')}"
        flags = [each.name] if each.kind is not each.KEYWORD_ONLY else [flag]
        more: dict[str, Any] = {"type": kind, "choices": choices}
        if kind is bool:
            more = {"action": "store_true"}
        elif each.kind is each.KEYWORD_ONLY:
            more |= {"required": needed, "default": None if needed else each.default}
            more["help"] = "" if needed or not each.default else f"(default {each.default})"
        elif several:
            more["nargs"] = "+" if needed else "*"
        if each.name == "output":
            flags.append("-o")
        parser.add_argument(*flags, **more)


def caption() -> str:
    """Return how a table was made: command, date, versions, processors."""
    command = shlex.join(["python", "-m", *(word for word in sys.argv if word != "--write")])
    versions = ", ".join(f"{name} {version(name)}" for name in ("alphamf", "numpy", "soundfile"))
    return (
        f"`{command}`, {datetime.now(UTC):%Y-%m-%d}; {versions}, "
        f"Python {platform.python_version()}; {os.cpu_count()} CPUs, one thread per process."
    )


def write_section(path: Path, name: str, text: str) -> None:
    """Replace what stands between the markers of a section of a page, or add it at the end."""
    opening, closing = f"<!-- {name} -->", f"<!-- /{name} -->"
    section = f"{opening}\n{text}\n{closing}"
    before = path.read_text(encoding="utf-8") if path.exists() else "# Benchmarks\n"
    pattern = re.compile(f"{re.escape(opening)}.*?{re.escape(closing)}", re.DOTALL)
    after, count = pattern.subn(lambda _: section, before)
    if not count:
        after = f"{before.rstrip()}\n\n## {name}\n\n{section}\n"
    path.write_text(after, encoding="utf-8")


def publish(path: Path, name: str, table: str, more: str = "", *, write: bool) -> None:
    """Print a table and how it was made, and write them into a page if asked to."""
    text = f"{table}\n\n{caption()}{more}"
    print(text)
    if write:
        write_section(path, name, text)


def publish_rows(
    path: Path,
    name: str,
    headings: list[str],
    rows: list[list[str]],
    order: list[tuple[str, ...]],
    *,
    write: bool,
) -> None:
    """Publish a table; rows of the page that were not made anew stay.

    `order` has the first cells of all rows, by which they are told from each other.
    """
    section = path.read_text(encoding="utf-8").partition(f"<!-- {name} -->")[2]
    lines = section.partition(f"<!-- /{name} -->")[0].splitlines()
    there = [line[2:-2].split(" | ") for line in lines if line.startswith("| ")]
    known = {tuple(row[: len(order[0])]): row for row in [*there, *rows]}
    table = tables.markdown(headings, [known[key] for key in order if key in known])
    publish(path, name, table, write=write)
