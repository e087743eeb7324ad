"""Clips with rumble, of the voice or of the noise, and their table."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import rumble
from benchmarks.front_clips import Clip

RATE = rumble.RATE


@pytest.fixture
def clip(monkeypatch):
    """Return a clip; the recordings are one tone at 30 Hz that is soft, and one that is not."""
    times = np.arange(2 * RATE) / RATE
    noise = np.random.default_rng(0).standard_normal((2, len(times)))
    soft, loud = (noise[0] + level * np.sin(2 * np.pi * 30 * times) for level in (0.01, 1.0))
    recordings = {"soft": soft.astype(np.float32), "loud": loud.astype(np.float32)}
    monkeypatch.setattr(rumble, "manifest", lambda *_: [("soft", "", ""), ("loud", "", "")])
    monkeypatch.setattr(rumble, "mono", lambda path, rate: recordings[path])
    rumble.rumbles.cache_clear()
    yield Clip("a", RATE, noise[0].astype(np.float32), noise.sum(0).astype(np.float32))
    rumble.rumbles.cache_clear()


def test_the_voice_keeps_its_own_rumble_and_not_the_noises(clip):
    assert len(rumble.rumbles()) == 1
    own, other = (rumble.with_rumble(0, clip, f"of the {name}") for name in ("voice", "noise"))
    np.testing.assert_array_equal(own.noisy, other.noisy)
    np.testing.assert_array_equal(other.clean, clip.clean)
    added = own.clean - clip.clean
    assert -13.1 < 20 * np.log10(added.std() / clip.clean.std()) < -6.9
    np.testing.assert_allclose(added, own.noisy - clip.noisy, atol=1e-6)
    np.testing.assert_allclose(rumble.below(added, RATE), added, atol=1e-4)


def test_loud_rumble_is_louder_than_the_voice(clip):
    assert rumble.with_rumble(0, clip, "none") is clip
    added = rumble.with_rumble(0, clip, "of the noise, loud").noisy - clip.noisy
    assert 0 <= 20 * np.log10(added.std() / clip.clean.std()) < 10.1


def test_table_has_a_line_for_each_case():
    rows = [
        rumble.Row(clip, case, {"fast": [decibels, 2.0, 0.5]})
        for case in rumble.CASES
        for clip, decibels in (("a", 9.0), ("b", 11.0))
    ]
    lines = rumble.table(rows).splitlines()
    assert lines[3] == "| of the voice | 10.00 ± 1.00 / 2.00 / 0.500 |"
    assert len(lines) == 2 + len(rumble.CASES)
