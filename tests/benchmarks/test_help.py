"""A benchmark explains itself when asked to, and what is missing is one sentence."""

import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
COMMANDS = sorted(
    path.stem
    for path in FOLDER.glob("*.py")
    if "__main__" in path.read_text(encoding="utf-8") and path.stem != "page_server"
)


def exit_code(monkeypatch, name, *words):
    """Run a benchmark as a command, and return what it exits with; skip without its packages."""
    monkeypatch.setattr(sys, "argv", [name, *words])
    monkeypatch.delitem(sys.modules, f"benchmarks.{name}", raising=False)
    try:
        with pytest.raises(SystemExit) as stopped:
            runpy.run_module(f"benchmarks.{name}", run_name="__main__")
    except ImportError as error:
        pytest.skip(f"what it needs is not installed: {error}")
    return stopped.value.code


@pytest.mark.parametrize("name", COMMANDS)
def test_help_only_explains(name, monkeypatch, capsys):
    assert not exit_code(monkeypatch, name, "--help")
    assert capsys.readouterr().out.startswith(f"usage: python -m benchmarks.{name} ")


@pytest.mark.parametrize(
    "words",
    [
        "calibration",
        "clips noizeus -o pairs.csv",
        "latency rnnoise",
        "quality pauses",
        "quality recorded --clips 1 --jobs 1",
        "quality unheard",
        "room_constants",
        "samplers",
    ],
)
def test_without_corpora_it_ends_with_a_sentence(words, monkeypatch, capsys, empty):
    monkeypatch.delenv("ALPHAMF_DATA", raising=False)
    assert exit_code(monkeypatch, *words.split()) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert "ALPHAMF_DATA" in said[0] or "corpora" in said[0]
