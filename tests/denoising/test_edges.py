"""Nothing appears above the edge of a sound whose band ends early."""

from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
import soundfile

from alphamf import denoise
from alphamf.audio.resample import resample
from alphamf.denoising.settings import PRESETS
from tests.support.edges import MARGIN, NOTHING, edge, level_above

FAST = replace(PRESETS["fast"], steps=6, keep=4, warm_up=6)


def sound(rate: int, seconds: float = 2.0) -> np.ndarray:
    """Syllables of noise and of tones, over a hiss, up to half the rate."""
    rng = np.random.default_rng(0)
    time = np.arange(round(seconds * rate)) / rate
    syllables = np.sin(2 * np.pi * 2 * time) ** 4
    tones = sum(np.sin(2 * np.pi * 150 * k * time) / k for k in range(1, 40))
    noise = rng.standard_normal((2, len(time)))
    return (0.1 * syllables * (tones + noise[0]) + 0.02 * noise[1]).astype(np.float32)


@pytest.mark.parametrize("before, rate", [(16000, 48000), (22050, 44100), (32000, 48000)])
def test_upsampled_sound(before, rate):
    upsampled = resample(sound(before), before, rate)
    top = edge(upsampled, rate)
    assert abs(top - before / 2) < 0.05 * before
    found = denoise(upsampled, rate, FAST).audio
    assert level_above(found, rate, top + MARGIN) < NOTHING


def test_both_channels_of_upsampled_stereo():
    one = resample(sound(16000), 16000, 48000)
    found = denoise(np.stack([one, np.roll(one, 24) / 2], axis=1), 48000, FAST).audio
    for channel in found.T:
        assert level_above(np.ascontiguousarray(channel), 48000, 8000 + MARGIN) < NOTHING


def test_mp3():
    """What the codec's low-pass leaves above its edge does not grow."""
    file = io.BytesIO()
    soundfile.write(file, sound(48000), 48000, format="MP3", compression_level=0.8)
    file.seek(0)
    decoded = soundfile.read(file, dtype="float32")[0]
    top = edge(decoded, 48000)
    assert top < 20000
    found = denoise(decoded, 48000, FAST).audio
    assert level_above(found, 48000, top + MARGIN) < NOTHING


def test_a_sound_without_an_edge_keeps_its_top():
    """The check would find what is there: hiss up to 24 kHz stays where nothing is taken away."""
    whole = sound(48000)
    found = denoise(whole, 48000, replace(FAST, dry=0.1)).audio
    assert level_above(found, 48000, 16000 + MARGIN) > NOTHING
