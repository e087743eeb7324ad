"""Sentences of the library: it names arguments in backquotes, and the command line its options."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest
import typer

import alphamf
from alphamf.cli.app import app
from alphamf.cli.report import with_options
from alphamf.denoising.settings import Settings

ROOT = Path(alphamf.__file__).parent

OTHERS = (
    "evaluation/page/styles.py",
    "evaluation/page/svg.py",
    "tools/extras.py",
    "training/refiner/command.py",
    "training/refiner/packing.py",
)
"""Files with names of a style sheet, and command lines that stand in the library."""

ELSEWHERE = {"nthreads"}
"""An option of a command that is not alphamf's: a worker of Dask's."""


def strings():
    """Yield file, line and text of every string in the library, those of f-strings included."""
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith("cli/") or name in OTHERS:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield name, node.lineno, node.value


def docstrings():
    """Return file and line of every string that stands alone."""
    found = set()
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                found.add((path.relative_to(ROOT).as_posix(), node.value.lineno))
    return found


def options():
    """Return the names of all options of all commands, as Python writes them."""
    commands = typer.main.get_command(app).commands.values()
    spelled = {word for each in commands for param in each.params for word in param.opts}
    return {word.lstrip("-").replace("-", "_") for word in spelled}


def test_no_string_of_the_library_spells_an_option():
    found = [
        (name, line)
        for name, line, text in strings()
        if re.search(r"(?<![\w-])--[a-z]", text.replace("pip install --no-deps", "pip install"))
    ]
    assert found == []


def test_what_stands_in_backquotes_is_an_option():
    known = options() | {field.name for field in fields(Settings)} | ELSEWHERE | {"speech_from"}
    alone = docstrings()
    used = {
        word
        for name, line, text in strings()
        if (name, line) not in alone
        for word in re.findall(r"(?<!`)`([a-z][a-z0-9_]*)`(?!`)", text)
    }
    assert {"output", "overwrite", "max_channels", "cluster", "method"} <= used
    assert used <= known, used - known


@pytest.mark.parametrize(
    ("sentence", "printed"),
    [
        ("`max_channels` must be at least 1", "--max-channels must be at least 1"),
        ("use `output` FILE or `output_dir`", "use -o FILE or --output-dir"),
        ("use `alphamf denoise` instead", "use `alphamf denoise` instead"),
        ("a`b`.wav and ``x``", "a`b`.wav and ``x``"),
    ],
)
def test_the_command_line_prints_options(sentence, printed):
    assert with_options(sentence) == printed
