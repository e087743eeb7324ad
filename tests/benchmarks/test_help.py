"""Asking a benchmark what it does explains it, and does nothing."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
STARTED_BY_OTHERS = {"libfuzzer", "page_server"}
COMMANDS = sorted(
    path.stem
    for path in FOLDER.glob("*.py")
    if "__main__" in path.read_text(encoding="utf-8") and path.stem not in STARTED_BY_OTHERS
)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_only_explains(name, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    monkeypatch.delitem(sys.modules, f"benchmarks.{name}", raising=False)
    try:
        with pytest.raises(SystemExit) as stopped:
            runpy.run_module(f"benchmarks.{name}", run_name="__main__")
    except ImportError as error:
        pytest.skip(f"what it needs is not installed: {error}")
    assert not stopped.value.code
    assert capsys.readouterr().out.startswith(f"usage: python -m benchmarks.{name} ")
