"""Time and memory of a command."""

import sys

import pytest

from benchmarks import cost


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (["start", "--rounds", "1"], 3),
        (["length", "--minutes", ".02,.04", "--channels", "1,2", "--rate", "8000"], 3),
    ],
)
def test_every_part_prints_its_table(arguments, lines, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["cost", *arguments])
    cost.main()
    text = capsys.readouterr().out
    table = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(table) - 2 == lines
    assert f"python -m benchmarks.cost {' '.join(arguments)}" in text
