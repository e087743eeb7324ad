"""Options of commands, how a table was made, and sections of a page."""

from __future__ import annotations

import argparse
import os
import platform
import re
import shlex
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from alphamf.errors import AlphaMFError


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


def rows_of(path: Path, name: str) -> list[list[str]]:
    """Return the cells of the table in a section of a page, of its headings and its line, too."""
    section = path.read_text(encoding="utf-8").partition(f"<!-- {name} -->")[2]
    lines = section.partition(f"<!-- /{name} -->")[0].splitlines()
    return [line[2:-2].split(" | ") for line in lines if line.startswith("| ")]


def publish(path: Path, name: str, text: str, *, write: bool) -> None:
    """Print a section, and write it into the page if asked to."""
    print(text)
    if write:
        write_section(path, name, text)
