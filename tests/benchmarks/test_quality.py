"""Clips of the tables of quality, and the tables themselves."""

import numpy as np
import pytest

from alphamf.scores.score import si_sdr
from benchmarks import quality, scored
from benchmarks.clips import Clip

RATE = quality.RATE


@pytest.fixture
def clip(monkeypatch):
    """Return a clip; the only recording is a noise."""
    voice, noise = np.random.default_rng(0).standard_normal((2, 2 * RATE)).astype(np.float32)
    monkeypatch.setattr(quality, "manifest", lambda *_: [("noise", "", "")])
    monkeypatch.setattr(quality, "mono", lambda path, rate: noise)
    return Clip("en_a", RATE, voice, voice + noise)


def test_the_noise_lies_as_far_down_as_the_group_says(clip):
    voice = np.random.default_rng(3).standard_normal(len(clip.clean)).astype(np.float32)
    clip = clip._replace(clean=voice)
    found = {name: made for (name, *_), made in quality.nearly_clean(0, clip, "test")}
    ratios = [si_sdr(made.clean, made.noisy) for made in found.values()]
    np.testing.assert_allclose(ratios[:2], [30, 40], atol=0.2)
    assert list(found) == ["30 dB", "40 dB", "clean"] and ratios[2] == np.inf


ROWS = [
    scored.Row("a", ("babble", "0 dB"), {"noisy": [1.0, 2.0, 0.5], "fast": [2.0, 2.5, 0.6]}),
    scored.Row("b", ("street", "0 dB"), {"noisy": [3.0, 3.0, 0.7], "fast": [6.0, np.nan, 0.7]}),
]


def test_means_over_all_and_by_group():
    lines = scored.summary(ROWS)
    found = {(line[0], line[2]): line for line in lines}
    assert lines[0][:5] == ["group", "clips", "method", "SI-SDR dB", "error of SI-SDR dB"]
    assert found["all", "fast"][3:] == ["4.00", "2.00", "2.500", "", "0.650", "0.050"]
    assert found["babble", "noisy"][1:5] == ["1", "noisy", "1.00", ""]
    assert list(dict.fromkeys(line[0] for line in lines[1:])) == ["all", "babble", "0 dB", "street"]


def test_a_method_is_compared_with_the_others_clip_by_clip():
    rows = scored.with_differences(ROWS, [("fast", "noisy"), ("fast", "absent"), ("fast", "fast")])
    lines = [line for line in scored.summary(rows) if "less" in line[2]]
    assert lines[0][:5] == ["all", "2", "fast less noisy", "2.00", "1.00"]
    assert lines[0][5:] == ["0.500", "", "0.050", "0.050"]
    assert {line[2] for line in lines} == {"fast less noisy"}
