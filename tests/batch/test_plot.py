"""The picture: drawn from blocks of any size, in bounded memory, without pyplot's figures."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphamf.audio.stft import Frame
from alphamf.batch import plot
from alphamf.errors import AlphaMFError


def noise(frames: int, channels: int = 1) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((frames, channels)).astype(np.float32)


@given(cuts=st.lists(st.integers(0, 9000), max_size=6), rate=st.sampled_from([8000, 16000, 44100]))
@settings(max_examples=20, deadline=None)
def test_a_spectrogram_does_not_depend_on_the_blocks(cuts, rate):
    samples = noise(9000, 2)
    whole, cut = plot.Spectrogram(9000, rate), plot.Spectrogram(9000, rate)
    whole.add(samples)
    for block in np.split(samples, sorted(cuts)):
        cut.add(block)
    np.testing.assert_allclose(cut.power(), whole.power(), rtol=1e-5)


@pytest.mark.parametrize("frames", [1, 100, 5000, 2_000_000])
def test_a_spectrogram_shows_a_tone_where_it_is_and_grows_no_wider_than_the_picture(frames):
    rate = 16000
    tone = np.sin(2 * np.pi * 3000 * np.arange(frames) / rate).astype(np.float32)
    tone[: frames // 2] = 0
    spectrogram = plot.Spectrogram(frames, rate)
    for block in np.array_split(tone[:, None], 1 + frames // 100_000):
        spectrogram.add(block)
    power = spectrogram.power()
    assert power.shape[1] <= 1200 and np.isfinite(power).all()
    if frames >= 5000:
        row = power[:, -power.shape[1] // 4].argmax()
        assert row / (len(power) - 1) * rate / 2 == pytest.approx(3000, abs=50)
        assert power[:, : power.shape[1] // 2 - 4].max() == 0


@pytest.mark.parametrize(
    ("frames", "channels", "level"),
    [
        (20_000, 2, 1),
        *(pytest.param(*x, marks=pytest.mark.slow) for x in [(1, 1, 1), (8000, 1, 0)]),
    ],
)
def test_the_picture_is_written_for_any_length_and_level(tmp_path, frames, channels, level):
    import matplotlib.pyplot
    from matplotlib.image import imread

    figures = matplotlib.pyplot.get_fignums()
    picture = plot.Picture("a $name_ with^ (odd) \N{GREEK SMALL LETTER ALPHA}.wav", frames, 8000)
    samples = level * noise(frames, channels)
    picture.before.add(samples)
    picture.after.add(0.5 * samples)
    gain = np.full((channels, 257, 1 + frames // 128), 0.2, np.float32)
    picture.add_gain(samples, gain, gain / 2, Frame(512, 128))
    picture.save(tmp_path / "a.png")
    height, width, _ = imread(tmp_path / "a.png").shape
    assert width > height > 500
    assert matplotlib.pyplot.get_fignums() == figures
    with pytest.raises(AlphaMFError, match=r"b\.png cannot be written"):
        picture.save(tmp_path / "none" / "b.png")


def test_what_is_unsure_is_orange_and_what_is_sure_is_blue(tmp_path):
    from matplotlib.image import imread

    rate, seconds, frame = 8000, 3, Frame(512, 128)
    samples = noise(rate * seconds)
    frames = 1 + len(samples) // frame.hop_length
    picture = plot.Picture("a.wav", len(samples), rate)
    picture.before.add(samples)
    picture.after.add(samples)
    gain = np.full((1, frame.bins, frames), 0.8, np.float32)
    std = np.full_like(gain, 0.05)
    std[..., frames // 2 :] = 0.5
    picture.add_gain(samples, gain, std, frame)
    picture.save(tmp_path / "a.png")
    drawn = imread(tmp_path / "a.png")[..., :3]
    height, width, _ = drawn.shape
    panel = drawn[int(0.58 * height) : int(0.74 * height)]
    sure, unsure = panel[:, width // 8 : width // 3], panel[:, width // 2 : 4 * width // 5]
    assert sure[..., 2].mean() > 1.5 * sure[..., 0].mean()
    assert unsure[..., 0].mean() > 1.5 * unsure[..., 2].mean()
