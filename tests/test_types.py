"""The types of the package, as pyright sees them."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import pytest

from tests.support.places import ROOT


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("pyright") is None,
    reason="pyright is not installed: pip install 'pyright[nodejs]'",
)
def test_the_package_is_type_complete():
    command = [sys.executable, "-m", "pyright", "--verifytypes", "alphamf", "--ignoreexternal"]
    done = subprocess.run(
        [*command, "--outputjson", "--pythonpath", sys.executable],
        cwd=ROOT, capture_output=True, check=False, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    symbols = json.loads(done.stdout)["typeCompleteness"]["symbols"]
    exported = {each["name"]: each for each in symbols if each["isExported"]}
    assert "alphamf.denoising.stream.Stream.process" in exported
    incomplete = [
        name
        for name, each in exported.items()
        if each["isTypeAmbiguous"] or not each["isTypeKnown"]
    ]
    assert incomplete == []
