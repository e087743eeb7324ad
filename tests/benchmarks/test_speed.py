"""Processor time beside other denoisers."""

from __future__ import annotations

import pytest

from alphamf.errors import AlphaMFError
from alphamf.evaluation.cost import Cost
from benchmarks import speed


def test_methods_are_compared_in_one_run_and_one_that_fails_is_left_blank(monkeypatch):
    costs = {"logmmse": 0.01, "rnnoise": 0.02, "fast": 0.1, "webrtc": None}

    def timed(name, clip):
        if costs[name] is None:
            raise AlphaMFError("webrtc failed")
        return clip.noisy, Cost(0.5 + costs[name] * len(clip.noisy) / clip.rate, 1.0, None)

    monkeypatch.setattr(speed, "measure_cost", timed)
    monkeypatch.setattr(speed, "methods", lambda: list(costs))
    lines = [line[2:-2].split(" | ") for line in speed.peers(3).splitlines()]
    found = {line[0]: dict(zip(lines[0], line, strict=True)) for line in lines[2:]}
    for rate in (8, 16, 48):  # what starts it, half a second, is not counted
        assert found["fast"][f"CPU s per s, {rate} kHz"] == "0.1000"
        assert found["fast"][f"rnnoise = 1, {rate} kHz"] == "5.00"
        assert found["logmmse"][f"rnnoise = 1, {rate} kHz"] == "0.50"
        assert found["webrtc"][f"CPU s per s, {rate} kHz"] == "nan"


def test_the_presets_are_among_the_methods():
    found = speed.methods()
    assert {"logmmse", "fast", "plain"} <= set(found)
    assert not {"noisy", "oracle-mask", "paper"} & set(found)


@pytest.mark.slow
def test_the_rates_are_compared_with_16_khz(monkeypatch):
    monkeypatch.setattr(speed, "LENGTHS", (0.25, 0.5))
    lines = speed.rates(1).splitlines()
    assert lines[2].startswith("| 16 | ") and lines[2].endswith(" | 1.00 |")
    assert len(lines) == 6
