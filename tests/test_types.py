"""The types of what users import, as pyright sees them."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import pytest

import alphamf
from tests.support.places import ROOT


def homes():
    """Return the modules that the public names are defined in."""
    found = (getattr(alphamf, name) for name in alphamf.__all__)
    return {each.__module__ for each in found if hasattr(each, "__module__")}


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("pyright") is None,
    reason="pyright is not installed: pip install 'pyright[nodejs]'",
)
def test_the_public_names_are_type_complete():
    command = [sys.executable, "-m", "pyright", "--verifytypes", "alphamf", "--ignoreexternal"]
    done = subprocess.run(
        [*command, "--outputjson", "--pythonpath", sys.executable],
        cwd=ROOT, capture_output=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    symbols = json.loads(done.stdout)["typeCompleteness"]["symbols"]
    exported = {each["name"]: each for each in symbols if each["isExported"]}
    places = tuple(f"{home}." for home in homes())
    assert "alphamf.denoising.stream.Stream.process" in exported
    incomplete = [
        name
        for name, each in exported.items()
        if (name.startswith(places) or name.count(".") == 1)
        and (each["isTypeAmbiguous"] or not each["isTypeKnown"])
    ]
    assert incomplete == []
