"""What is said of a release in several files agrees: versions, requirements, platforms."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.support.places import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
yaml = pytest.importorskip("yaml")
CONDA = {"soundfile": "pysoundfile", "soxr": "soxr-python"}
"""Packages that conda-forge calls otherwise."""


def read(path):
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def test_versions_agree():
    assert read("CITATION.cff")["version"] == PROJECT["version"]
    assert read("recipe/recipe.yaml")["context"]["version"] == PROJECT["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## (\S+)", changelog, re.MULTILINE)[1] == PROJECT["version"]


def test_the_recipe_has_the_requirements():
    wanted = [re.match(r"([\w-]+)(.*)", each).groups() for each in PROJECT["dependencies"]]
    named = [f"{CONDA.get(name, name)} {bounds}" for name, bounds in wanted]
    assert read("recipe/recipe.yaml")["requirements"]["run"] == ["python", *named]


@pytest.mark.parametrize("name", ["tests", "wheels"])
def test_workflows_end_and_ask_for_no_rights(name):
    found = read(f".github/workflows/{name}.yml")
    assert found["permissions"] == {"contents": "read"}
    assert all(0 < job["timeout-minutes"] <= 90 for job in found["jobs"].values())
