"""The types of the package, as pyright and mypy see them."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from typing import get_args

import pytest

import alphamf
from alphamf.denoising.choices import PresetName
from tests.support.places import ROOT

CALLS = """\
import numpy as np
from alphamf import Settings, Stream, denoise, denoise_stream, train

x = np.zeros(16000, np.float32)
denoise(x, 16000, "fast")
denoise(x, 16000.0, preset="transcription", strength=0.5)
denoise("talk.wav")
denoise(x, 16000, Settings(sampler="hamcmc", channels="separate"), device="auto")
Stream(16000, 1, "fast", latency="low")
train(["clean/"], sampler="em", voices="folder")
"""
"""Calls that a type checker accepts."""

MISTAKES = (
    'denoise(x, 16000, "blanced")',
    'denoise(x, 16000, preset="blanced")',
    'denoise(x, 16000, device="gpu")',
    'denoise(x, 16000, strength="half")',
    'denoise_stream([x], 16000, "fast", latency="short")',
    'Stream(16000, 1, "best")',
    'Stream(16000, 1, device="CUDA")',
    'Settings(channels="link")',
    'train(["clean/"], voices="speaker")',
)
"""Calls that it refuses."""


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
        if (each["isTypeAmbiguous"] or not each["isTypeKnown"])
        and not name.startswith("alphamf.agents.")  # whose bases are the frameworks' own
    ]
    assert incomplete == []


def test_literals_are_the_names_in_the_registries():
    assert list(get_args(PresetName)) == list(alphamf.PRESETS)


@pytest.mark.slow
def test_mypy_refuses_names_that_there_are_not(tmp_path):
    pytest.importorskip("mypy")
    script = tmp_path / "calls.py"
    script.write_text(CALLS + "\n".join(MISTAKES) + "\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", os.devnull, "--ignore-missing-imports",
         "--follow-imports", "silent", "--cache-dir", str(tmp_path / "cache"), str(script)],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "MYPYPATH": str(ROOT)},
    )  # fmt: skip
    first = CALLS.count("\n") + 1
    found = {int(number) for number in re.findall(r"calls\.py:(\d+): error:", done.stdout)}
    assert found == set(range(first, first + len(MISTAKES))), done.stdout + done.stderr
