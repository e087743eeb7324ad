"""Docstrings and comments: each example runs, and each name in backquotes exists."""

import doctest
from importlib import import_module

import pytest

from tests import test_reference
from tests.support import names
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


def test_names_in_backquotes_exist():
    assert names.unknown() == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ('"""As `gone`."""', "gone"),
        ("x = 1  # from `alphamf.errors.Gone`", "alphamf.errors.Gone"),
        ('def f(a):\n    """Of `a` and `b`."""', "b"),
        ('"""Of `numpy.load`, `numpy.lod`, ``c`` and `x y`."""', "numpy.lod"),
        ('"""See `AlphaMFError.gone_too`."""', "AlphaMFError.gone_too"),
    ],
)
def test_a_name_that_nothing_has_is_found(text, wrong):
    source = names.read(text)
    project = names.Project({"alphamf.errors": {"AlphaMFError"}}, {"AlphaMFError"}, set())
    found = [name for _, words in source.prose for name in names.NAME.findall(words)]
    assert [name for name in found if not names.is_known(name, source.used, project)] == [wrong]
