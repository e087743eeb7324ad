"""Time for which a process was suspended does not count."""

from __future__ import annotations

import pytest

from alphamf.tools import stopwatch


@pytest.mark.parametrize(
    ("gaps", "seconds"),
    [
        ([], 0),
        ([0.25, 0.5], 0.75),
        ([1000], stopwatch.STEP),
        ([0.5, 1000, 0.5], 1 + stopwatch.STEP),
    ],
)
def test_a_long_time_between_two_looks_counts_as_one_step(monkeypatch, gaps, seconds):
    times = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: times[-1])
    watch = stopwatch.Stopwatch()
    for gap in gaps:
        times.append(times[-1] + gap)
        found = watch.seconds()
    assert (found if gaps else watch.seconds()) == pytest.approx(seconds)
