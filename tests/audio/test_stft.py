"""The transform against a loop written out, and its exact inverse."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphamf.audio.stft import Frame, forward, frame_count, inverse, sqrt_hann
from alphamf.errors import AlphaMFError

FRAMES = [Frame(2, 1), Frame(16, 8), Frame(63, 31), Frame(64, 16), Frame(101, 50), Frame(400, 160)]
FRAMES += [Frame(512, 128), Frame(512, 256)]
WINDOWS = {
    "sqrt-Hann": lambda n: None,
    "Hamming": lambda n: np.hamming(n).astype(np.float32),
    "periodic Hann": lambda n: sqrt_hann(n) ** 2,
    "ones": lambda n: np.ones(n, np.float32),
}


def signal(samples: int, seed: int = 0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(samples).astype(dtype)


@settings(deadline=None, derandomize=True, max_examples=300)
@given(
    samples=st.integers(0, 3000),
    frame=st.sampled_from(FRAMES),
    window=st.sampled_from(sorted(WINDOWS)),
    seed=st.integers(0, 1000),
)
def test_round_trip_is_exact(samples, frame, window, seed):
    audio = signal(samples, seed)
    window = WINDOWS[window](frame.n_fft)
    spectrum = forward(audio, frame, window)
    assert spectrum.shape == (frame.n_fft // 2 + 1, frame_count(samples, frame))
    assert spectrum.dtype == np.complex64
    back = inverse(spectrum, frame, samples, window)
    assert back.dtype == np.float32
    assert back.shape == (samples,)
    if samples:
        assert np.sqrt(np.mean((back - audio) ** 2)) < 1e-6


def test_double_precision_is_kept():
    audio = signal(5000, dtype=np.float64)
    spectrum = forward(audio, Frame(512, 128))
    assert spectrum.dtype == np.complex128
    back = inverse(spectrum, Frame(512, 128), 5000)
    assert back.dtype == np.float64
    np.testing.assert_allclose(back, audio, atol=1e-13)


@pytest.mark.parametrize("frame", FRAMES, ids=str)
def test_frame_is_centred_on_its_hop(frame):
    """Frame j is the transform of the windowed samples around j * hop, zero outside the signal."""
    samples = 3 * frame.n_fft + 7
    audio = signal(samples, dtype=np.float64)
    window = np.hamming(frame.n_fft)
    spectrum = forward(audio, frame, window)
    for j in range(spectrum.shape[1]):
        index = j * frame.hop_length - frame.n_fft // 2 + np.arange(frame.n_fft)
        inside = (index >= 0) & (index < samples)
        block = np.where(inside, audio[index.clip(0, samples - 1)], 0.0)
        np.testing.assert_allclose(spectrum[:, j], np.fft.rfft(window * block), atol=1e-10)


@pytest.mark.parametrize("frame", [Frame(512, 257), Frame(512, 0), Frame(1, 1), Frame(0, 0)])
def test_frame_that_leaves_gaps_is_refused(frame):
    with pytest.raises(AlphaMFError, match=r"hop_length.*not \("):
        forward(signal(100), frame)
    with pytest.raises(AlphaMFError, match="hop_length"):
        inverse(np.zeros((257, 3), np.complex64), frame, 100)


def test_window_of_another_length_is_refused():
    with pytest.raises(AlphaMFError, match="n_fft = 64"):
        forward(signal(100), Frame(64, 16), np.ones(63, np.float32))
