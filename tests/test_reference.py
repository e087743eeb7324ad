"""The reference: every public name is in it, with an example that does what it says."""

import doctest
import re
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import alphamf
from tests.support.places import ROOT

PAGES = ROOT / "docs" / "reference"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
VALUES = ("PRESETS", "SAMPLERS")
"""Public names that are no functions or classes: their examples stand on the page."""

SLOW = ("alphamf.train",)
"""What librosa compiles for it takes a quarter of a minute."""

NEEDS = {
    "alphamf.inference.targets.derived_density.JaxDensity": "jax",
    "alphamf.inference.targets.derived_density.TorchDensity": "torch",
}
"""Packages of extras that an example needs; it is skipped without them."""


def listed() -> list[str]:
    """Return the dotted names of the tables, those of the first page aside."""
    found = []
    for page in sorted(set(PAGES.glob("*.rst")) - {PAGES / "index.rst"}):
        lines = re.findall(r"^   ([A-Za-z][\w.]*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        found += [name for name in lines if name.startswith("alphamf.") or name in alphamf.__all__]
    return [name if "." in name else f"alphamf.{name}" for name in found]


def named(dotted: str) -> Any:
    module, name = dotted.rsplit(".", 1)
    return getattr(import_module(module), name)


def outcome(test: doctest.DocTest) -> str:
    """Run an example and return what differs."""
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=FLAGS)
    runner.run(test, out=report.append)
    return "".join(report)


@pytest.mark.parametrize(
    "dotted",
    [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in listed()],
)
def test_public_names_have_examples_that_hold(dotted, monkeypatch):
    if dotted in NEEDS:
        pytest.importorskip(NEEDS[dotted])
    monkeypatch.chdir(ROOT)
    subject = named(dotted)
    home = vars(import_module(subject.__module__))
    example = doctest.DocTestParser().get_doctest(
        subject.__doc__, {"np": np, **home}, dotted, subject.__module__, 0
    )
    assert example.examples, f"{dotted} has no example"
    assert outcome(example) == ""


def test_values_have_examples_that_hold():
    page = (PAGES / "denoising.rst").read_text(encoding="utf-8")
    example = doctest.DocTestParser().get_doctest(page, {}, "denoising.rst", None, 0)
    assert example.examples
    assert outcome(example) == ""


@pytest.mark.slow  # it trains
def test_the_first_page_does_what_it_says(empty):
    (empty / "data").symlink_to(ROOT / "data")
    page = (PAGES / "index.rst").read_text(encoding="utf-8")
    example = doctest.DocTestParser().get_doctest(page, {}, "index.rst", None, 0)
    assert len(example.examples) > 9
    assert outcome(example) == ""


def test_all_public_names_are_listed():
    names = listed()
    assert {f"alphamf.{name}" for name in alphamf.__all__ if name not in VALUES} <= set(names)
    page = (PAGES / "denoising.rst").read_text(encoding="utf-8")
    assert all(f".. data:: {name}" in page for name in VALUES)
    assert len(set(names)) == len(names)


def test_all_samplers_are_listed():
    hyperparameters = {"em": (), "rsgld": (0.1,)}
    built = {
        type(make(*hyperparameters.get(name, (0.1,)))) for name, make in alphamf.SAMPLERS.items()
    }
    homes = {f"{kind.__module__}.{kind.__name__}" for kind in built}
    assert homes <= set(listed())
