"""What the page draws: columns of levels, and how sure they are."""

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphamf.audio.stft import Frame, forward, frame_count
from alphamf.batch.plot import COLUMNS
from alphamf.serving.picture import BANDS, FLOOR, RECORD, Band, SoundPicture

RATE = 16000


def columns(sound, rate=RATE, sizes=(10**9,)):
    file = io.BytesIO()
    picture = SoundPicture(len(sound), rate, file)
    start = k = 0
    while start < len(sound):
        size = sizes[k % len(sizes)]
        picture.add(sound[start : start + size])
        start, k = start + size, k + 1
    picture.finish()
    return np.frombuffer(file.getvalue(), np.uint8).reshape(-1, RECORD)


@settings(deadline=None, max_examples=25)
@given(
    frames=st.integers(1, 30000),
    channels=st.integers(1, 3),
    rate=st.sampled_from([1000, 8000, 44100]),
    sizes=st.lists(st.integers(1, 9000), min_size=1, max_size=4),
)
def test_columns_do_not_depend_on_the_blocks(frames, channels, rate, sizes):
    rng = np.random.default_rng(frames)
    sound = rng.standard_normal((frames, channels)).astype(np.float32) / 10
    whole = columns(sound, rate)
    assert 1 <= len(whole) <= COLUMNS
    parts = columns(sound, rate, [max(200, size) for size in sizes])
    assert np.abs(whole.astype(int) - parts.astype(int)).max() <= 1


def test_a_tone_is_where_and_as_loud_as_it_is():
    t = np.arange(3 * RATE) / RATE
    sound = np.zeros((3 * RATE, 1), np.float32)
    sound[RATE : 2 * RATE, 0] = 0.5 * np.sin(2 * np.pi * 1000 * t[RATE : 2 * RATE])
    found = columns(sound)
    count = len(found)
    inside, outside = found[count // 3 + 3 : 2 * count // 3 - 3], found[: count // 3 - 3]
    assert (outside[:, 2:] == 0).all() and (outside[:, :2] == 128).all()
    assert np.allclose(inside[:, :2], [128 - 63.5, 128 + 63.5], atol=1)
    band = inside[:, 2:].mean(0).argmax()
    mel = 2595 * np.log10(1 + 1000 / 700) / (2595 * np.log10(1 + RATE / 2 / 700))
    assert band == pytest.approx(mel * (BANDS + 1) - 1, abs=1)
    level = (inside[:, 2:].max(1) / 255 - 1) * -FLOOR
    assert level.mean() == pytest.approx(-6, abs=4)


def test_the_band_is_the_level_where_the_gain_is_sure_and_wide_where_not():
    frame = Frame(512, 256)
    rng = np.random.default_rng(1)
    audio = rng.standard_normal((RATE, 1)).astype(np.float32) / 10
    bins, frames = forward(audio[:, 0], frame).shape
    gain = np.full((1, bins, frames), 0.5, np.float32)
    std = np.zeros_like(gain)
    std[:, :, frames // 2 :] = 0.25
    file = io.BytesIO()
    band = Band(len(audio), frame, file)
    band.add(audio, gain, std)
    band.finish()
    low, middle, high = np.frombuffer(file.getvalue(), np.uint8).reshape(-1, 3).T.astype(float)
    sure = slice(2, len(low) // 2 - 2)
    unsure = slice(len(low) // 2 + 2, -2)
    assert (low[sure] == high[sure]).all()
    decibels = -FLOOR / 255
    assert np.allclose((middle - low)[unsure] * decibels, 6.02, atol=0.6)
    assert np.allclose((high - middle)[unsure] * decibels, 3.52, atol=0.6)


def test_samples_far_beyond_full_scale_are_drawn_as_the_loudest():
    loud = 3e38 * np.random.default_rng(4).uniform(-1, 1, (4000, 2)).astype(np.float32)
    assert (columns(loud)[1:-1, 1] == 255).all() and (columns(loud)[1:-1, 2:] == 255).all()
    file, frame = io.BytesIO(), Frame(512, 256)
    gain = np.ones((2, 257, frame_count(len(loud), frame)), np.float32)
    band = Band(len(loud), frame, file)
    band.add(loud, gain, gain)
    band.finish()
    assert set(file.getvalue()[1::3]) == {255}
