"""Responses, clips and scores of rooms, on sounds that are known."""

import numpy as np
import pytest

from alphamf.audio.room import BANDS
from alphamf.evaluation.mixing import mixture
from benchmarks import rooms
from benchmarks.rooms import Room

RATE = 16000


def tail(rt60, drr, seed=0):
    """Return a direct sound of 1, and noise that falls by 60 dB in `rt60` seconds."""
    time = np.arange(int(1.3 * rt60 * RATE)) / RATE
    found = np.random.default_rng(seed).standard_normal(len(time)) * 10 ** (-3 * time / rt60)
    found[: RATE // 100] = 0
    found *= 10 ** (-drr / 20) / np.sqrt(np.sum(found**2))
    found[0] = 1
    return found


def voice(seconds=4):
    """Return noise that is switched on and off four times a second, shaped like a voice."""
    time = np.arange(seconds * RATE) / RATE
    sound = np.random.default_rng(3).standard_normal(len(time)) * (np.sin(8 * np.pi * time) > 0)
    return np.convolve(sound, [1, 0.9, 0.5])[: len(time)].astype(np.float32)


def rms(sound):
    return np.sqrt(np.mean(sound**2))


def taken(sound, response):
    return np.convolve(sound, response)[: len(sound)]


@pytest.mark.parametrize("rt60", [0.2, 0.5, 1.0])
def test_the_time_and_the_ratio_of_a_response_are_measured(rt60):
    response = tail(rt60, 3.0)
    assert rooms.direct_to_reverberant(response, RATE) == pytest.approx(3, abs=1e-6)
    found = [rooms.decay_time(response, RATE, band) for band in BANDS]
    assert np.mean(found) == pytest.approx(rt60, rel=0.08)
    np.testing.assert_allclose(found, rt60, rtol=0.3)
    assert rooms.middle(np.array([9, 0.4, 0.9, 9, 9])) == pytest.approx(0.6)


@pytest.fixture
def known(monkeypatch, tmp_path):
    """Give voices, a noise and a room that are known."""
    there = Room("hall", RATE, tail(0.6, 0.0), tail(0.6, -9.0, seed=1), np.full(5, 0.6), 0.0)
    monkeypatch.setattr(rooms, "voices", lambda split: [tmp_path / f"{split}.wav"])
    monkeypatch.setattr(rooms, "mono", lambda path, rate: voice())
    monkeypatch.setattr(rooms, "recorded_rooms", lambda split, rate: [there])
    hiss = np.random.default_rng(5).standard_normal(8 * RATE).astype(np.float32)
    monkeypatch.setattr(rooms, "_noise", lambda *_: mixture.noise(hiss, RATE))
    return there


def test_the_target_is_the_early_part_and_the_noise_is_as_far_down_as_asked(known):
    found = {each.condition: each for each in rooms.made("recorded", "dev", 0)}
    assert list(found) == ["alone", "with noise at 15 dB", "with noise at 5 dB"]
    alone = found["alone"].clip
    early = known.voice.copy()
    early[RATE // 20 :] = 0
    scale = rms(voice()) / rms(taken(voice(), known.voice))
    np.testing.assert_allclose(alone.clean, scale * taken(voice(), early), atol=1e-4)
    assert rms(alone.noisy) == pytest.approx(rms(voice()), rel=1e-3)
    for name, snr in (("15 dB", 15), ("5 dB", 5)):
        clip = found[f"with noise at {name}"].clip
        np.testing.assert_array_equal(clip.clean, alone.clean)
        added = clip.noisy - alone.noisy
        ratio = 10 * np.log10(np.mean(alone.noisy**2) / np.mean(added**2))
        assert ratio == pytest.approx(snr, abs=0.01)
    assert {each.group for each in found.values()} == {"RT60 .5 to .9 s"}
