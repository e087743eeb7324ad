"""The table of recordings that hardly need denoising."""

from __future__ import annotations

import numpy as np

from alphamf.evaluation.score import si_sdr
from benchmarks import compared, nearly_clean


def test_table_tells_how_often_the_sound_is_as_it_was():
    rows = [
        nearly_clean.Row(clip, level, {"noisy": [decibels, quality, 0.9]})
        for level, decibels in (("30 dB", 30.0), ("40 dB", 40.0), ("clean", np.inf))
        for clip, quality in (("a", 4.2), ("b", 4.4))
    ]
    lines = nearly_clean.table(rows).splitlines()
    assert lines[2] == "| 30 dB: noisy | 4.30 ± 0.10 | 30.0 ± 0.0 | 0.900 | 50% |"
    assert lines[4] == "| clean: noisy | 4.30 ± 0.10 | ∞ | 0.900 | 50% |"


def test_the_noise_lies_as_far_down_as_the_row_says(monkeypatch, tmp_path):
    sounds = np.random.default_rng(0).standard_normal((2, 16000)).astype(np.float32) / 10
    monkeypatch.setattr(nearly_clean, "mono", lambda path, rate: sounds[int(path == "noise")])
    heard = {}

    def run(name, clip):
        heard[len(heard)] = si_sdr(clip.clean, clip.noisy)
        return clip.noisy

    monkeypatch.setattr(compared, "run", run)
    monkeypatch.setattr(compared, "scores", lambda *_: [0.0, 0.0, 0.0])
    path = tmp_path / "voice.wav"
    rows = nearly_clean.measured((0, path), ["noise"], ["noisy"])
    assert [row.level for row in rows] == ["30 dB", "40 dB", "clean"]
    np.testing.assert_allclose(list(heard.values())[:2], [30, 40], atol=0.2)
    assert heard[2] == np.inf
