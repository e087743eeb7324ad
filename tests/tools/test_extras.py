"""What an extra brings is asked for by name, before any work, and only by what needs it."""

from __future__ import annotations

import sys

import pytest

from alphamf.tools.extras import install_extra
from tests.support.commands import QUICK, run
from tests.support.places import ROOT

SAMPLE = ROOT / "data" / "sample-noisy.wav"


@pytest.fixture
def bare(monkeypatch):
    """Hide what the extra `report` brings."""
    for name in ("jinja2", "markupsafe", "matplotlib", "PIL"):
        for loaded in [each for each in sys.modules if each.partition(".")[0] == name]:
            monkeypatch.delitem(sys.modules, loaded)
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.parametrize(
    "arguments",
    [
        ["denoise", SAMPLE, "--plot", "picture.png"],
        ["evaluate", "--clean", "clean", "--noisy", "noisy"],
        ["experiment", "linear-gaussian"],
    ],
    ids=lambda words: words[0],
)
def test_pictures_ask_for_the_extra(bare, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    result = run(*arguments, code=2)
    assert (
        f"needs the package matplotlib; install it with {install_extra('report')}" in result.stderr
    )
    assert list(tmp_path.iterdir()) == []


def test_sound_needs_none_of_it(bare, tmp_path):
    made = tmp_path / "out.wav"
    numbers = tmp_path / "out.npz"
    run("denoise", SAMPLE, "-o", made, *QUICK, "--end", "1", "--uncertainty", numbers)
    assert made.exists() and numbers.exists()
    run("experiment", "list")
    run("info", SAMPLE)
