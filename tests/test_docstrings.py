"""Docstrings and comments: each example runs, and each name in backquotes exists."""

import ast
import builtins
import doctest
import re
import sys
from importlib import import_module
from keyword import iskeyword
from typing import NamedTuple

import pytest

from tests import test_reference
from tests.support.places import ROOT

LISTED = {*test_reference.listed()}
"""Names of the reference, whose examples are run there."""


def modules():
    for folder in ("alphamf", "cli"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if ">>> " in path.read_text(encoding="utf-8"):
                parts = path.relative_to(ROOT).with_suffix("").parts
                yield ".".join(parts if folder == "alphamf" else ("alphamf", *parts))


@pytest.mark.parametrize("module", [*modules()])
def test_examples_of_what_no_page_lists_hold(module, monkeypatch):
    monkeypatch.chdir(ROOT)
    if ".refiner." in module:
        pytest.importorskip("torch")
    found = doctest.DocTestFinder(exclude_empty=True).find(import_module(module), module)
    for example in found:
        if example.name in LISTED or f"alphamf.{example.name.rpartition('.')[2]}" in LISTED:
            continue
        assert test_reference.outcome(example) == "", example.name


NAME = re.compile(r"(?<![`\w:])`([A-Za-z_][\w.]*)(?:\(\))?`(?!`)")
COMMENT = re.compile(r"(?:^|\s)#:? (.*)$")
FOLDERS = "alphamf", "cli", "models", "benchmarks"
OUTSIDE = "numpy", "scipy", "librosa", "soundfile", *sys.stdlib_module_names


class Source(NamedTuple):
    """A file: its prose with lines, and the names in it."""

    prose: list[tuple[int, str]]
    used: set[str]  # all identifiers
    defined: set[str]  # of functions, classes, imports and variables
    common: set[str]  # fields of classes and keys of tables


class Project(NamedTuple):
    """All files, and what they define together."""

    modules: dict[str, set[str]]  # the names that each module defines
    defined: set[str]
    common: set[str]  # what needs no context, with the names of modules; each file has a `make`


def read(text: str) -> Source:
    """Return what a file says and names."""
    source = Source([], set(), set(), set())
    for line, words in enumerate(text.splitlines(), 1):
        if comment := COMMENT.search(words):
            source.prose.append((line, comment[1]))
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(words)), lineno=line):
                source.prose.append((line, words))
            case ast.AnnAssign(target=ast.Name(id=name)):
                source.common.add(name)
            case ast.Dict(keys=keys):
                source.common.update(key.value for key in keys if isinstance(key, ast.Constant))
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                source.defined.add(name)
            case ast.AsyncFunctionDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                source.defined.add(name)
            case ast.Attribute(attr=name, ctx=ast.Store()):
                source.defined.add(name)
            case ast.alias(name=name, asname=other):
                source.defined.update({name, other or name})
                source.used.update({*name.split(".")})
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                source.used.add(name)
            case ast.arg(arg=name) | ast.MatchAs(name=str(name)):
                source.used.add(name)
            case ast.ImportFrom(module=str(name)):
                source.used.update({*name.split(".")})
    source.used.update(source.defined)
    return source


def unknown() -> list[str]:
    """Return what Python files mention but nothing is called."""
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    sources = {path: read(path.read_text(encoding="utf-8")) for path in paths}
    project = Project({}, set(), set())
    for path, source in sources.items():
        parts = path.relative_to(ROOT).with_suffix("").parts
        parts = parts if parts[0] in ("alphamf", "benchmarks") else ("alphamf", *parts)
        project.modules[".".join(part for part in parts if part != "__init__")] = source.defined
        project.defined.update(source.defined)
        project.common.update(source.common, parts)
    found = []
    for path, source in sources.items():
        for line, words in source.prose:
            for match in NAME.finditer(words):
                if not is_known(match[1], source.used, project):
                    place = line + words[: match.start()].count("\n")
                    found.append(f"{path.relative_to(ROOT)}:{place}: {match[1]}")
    return found


def is_known(name: str, used: set[str], project: Project) -> bool:
    """Whether a dotted name is one of a file, of the project or of a library."""
    first, *others = parts = name.split(".")
    if first in ("alphamf", "benchmarks"):
        while parts and ".".join(parts) not in project.modules:
            parts.pop()
        left = name.split(".")[len(parts) :]
        known = not left or left[0] in project.modules[".".join(parts)]
        return known and {*left[1:]} <= project.defined
    plain = name.islower() and name.isalpha()
    known = first in used or first in project.common or (not plain and first in project.defined)
    homes = used, project.defined, project.common
    if known and all(any(part in home for home in homes) for part in others):
        return True
    return iskeyword(first) or hasattr(builtins, first) or (first in OUTSIDE and _imported(name))


def _imported(name: str) -> bool:
    """Whether a name of a library is there."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:count]))
        except ImportError:
            continue
        for part in parts[count:]:
            found = getattr(found, part, None)
        return found is not None
    return False


def test_names_in_backquotes_exist():
    assert unknown() == []
