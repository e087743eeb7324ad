"""Time and memory: beside other denoisers, and of commands."""

import sys

import pytest

from alphamf.errors import AlphaMFError
from alphamf.evaluation.measure import Cost
from benchmarks import cost


def test_methods_are_compared_in_one_run_and_one_that_fails_is_left_blank(monkeypatch):
    costs = {"logmmse": 0.01, "rnnoise": 0.02, "fast": 0.1, "webrtc": None}

    def timed(name, clip):
        if costs[name] is None:
            raise AlphaMFError("webrtc failed")
        return clip.noisy, Cost(0.5 + costs[name] * len(clip.noisy) / clip.rate, 1.0, None)

    monkeypatch.setattr(cost, "measure_cost", timed)
    monkeypatch.setattr(cost, "methods", lambda: list(costs))
    monkeypatch.setattr(cost, "publish", lambda name, lines: published.extend(lines))
    published = []
    cost.peers()
    headings, *lines = published
    found = {line[0]: dict(zip(headings, line, strict=True)) for line in lines}
    for rate in (8, 16, 48):  # what starts it, half a second, is not counted
        assert found["fast"][f"CPU s per s, {rate} kHz"] == "0.1000"
        assert found["fast"][f"rnnoise = 1, {rate} kHz"] == "5.00"
        assert found["logmmse"][f"rnnoise = 1, {rate} kHz"] == "0.50"
        assert found["webrtc"][f"CPU s per s, {rate} kHz"] == "nan"


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
    assert cost.size()[-1][0] == "**all**"
