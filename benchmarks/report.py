"""Command-line options of the benchmarks, and captions that say how a table was made."""

import argparse
import os
import platform
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


def run_main(main: Callable[..., Any] | Mapping[str, Callable[..., Any]]) -> None:
    """Run a command: a function, or the one of several that the command line names.

    Keyword-only arguments of the function are options; `Annotated` lists their choices. A table
    that the function returns, headings first, is printed. An AlphaMFError, such as that of a
    missing corpus, is printed without a traceback, and the exit code is 2.
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
            first = text.partition("\n")[0].rstrip(".")
            _add_arguments(named.add_parser(name, description=text, help=first), part)
    else:
        _add_arguments(parser, main)  # type: ignore[arg-type]
    words = vars(parser.parse_args())
    try:
        lines = (parts[words.pop("part")] if parts else main)(**words)  # type: ignore[operator]
    except AlphaMFError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(2)
    if lines:
        show(lines)


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


def show(lines: list[list[str]], more: str = "") -> None:
    """Print a table, whose first line has the headings, then its caption and `more`."""
    print(f"{tables.markdown(lines[0], lines[1:])}\n\n{caption()}{more}")


def caption() -> str:
    """Return a caption that says how a table was made: command, date, versions, processors."""
    command = shlex.join(["python", "-m", *sys.argv])
    versions = ", ".join(f"{name} {version(name)}" for name in ("alphamf", "numpy", "soundfile"))
    return (
        f"`{command}`, {datetime.now(UTC):%Y-%m-%d}; {versions}, "
        f"Python {platform.python_version()}; {os.cpu_count()} CPUs, one thread per process."
    )
