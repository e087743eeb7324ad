"""Time and memory: beside other denoisers, and of commands."""

import sys

import pytest

from benchmarks import cost


def test_alphamf_is_among_the_methods():
    found = cost.methods()
    assert {"logmmse", "low", "fast", "plain"} <= set(found)
    assert not {"noisy", "oracle-mask", "paper"} & set(found)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_every_part_makes_its_table(monkeypatch):
    monkeypatch.setattr(cost, "LENGTHS", (0.25, 0.5))
    monkeypatch.setattr(cost, "ROUNDS", 1)
    lines = []
    monkeypatch.setattr(cost, "publish", lambda name, table: lines.extend(table))
    cost.rates()
    assert lines[1][0] == "16 kHz mono" and lines[1][2] == "1.00" and len(lines) == 6
    rows = cost.start(rounds=1)[1:]
    rows += cost.length(minutes="0.02,0.04", channels="1,2", rate=8000, same=True)[1:]
    assert len(rows) == 6 and all(float(row[2]) > 0 for row in rows)
