"""Stereo mixtures and their scores, on sounds that are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import stereo

VOICE = np.random.default_rng(0).standard_normal(stereo.SAMPLES) * (
    np.sin(np.arange(stereo.SAMPLES) / 3000) > 0
)


@pytest.fixture
def sounds(monkeypatch):
    """Have white noise for the noises, and noise that comes and goes for the voices."""
    noises = {str(k): np.random.default_rng(k).standard_normal(200000) for k in range(20)}
    monkeypatch.setattr(stereo, "voices", lambda split: [np.roll(VOICE, 999 * k) for k in range(6)])
    monkeypatch.setattr(stereo, "noise_files", lambda split: [*map(Path, noises)])
    monkeypatch.setattr(stereo, "loaded", lambda path: noises[path.name])


@pytest.mark.parametrize("kind", stereo.KINDS)
def test_mixtures_have_their_snr_and_a_voice_in_place(sounds, kind):
    (found,) = stereo.mixtures(1, 5.0, [kind], "dev")
    noise = found.noisy - found.clean
    assert 10 * np.log10((found.clean**2).mean(0).max() / (noise**2).mean(0)) == pytest.approx(
        5, abs=1e-3
    )
    coherence = np.corrcoef(found.clean.T)[0, 1]
    if kind in ("different noises", "one noise", "diffuse"):
        np.testing.assert_array_equal(found.clean[:, 0], found.clean[:, 1])
    elif kind == "panned":
        np.testing.assert_allclose(found.clean[8:, 1], found.clean[:-8, 0] / 2, atol=1e-3)
    else:
        assert coherence < 0.9
    own = kind in stereo.OWN or kind == "one noise"
    assert abs(np.corrcoef(noise.T)[0, 1]) < 0.05 or not own


def test_diffuse_noise_is_coherent_below_the_distance_of_the_microphones(sounds):
    noise = stereo.noise_of("diffuse", *(stereo.loaded(Path(str(k))) for k in range(2)))
    spectra = np.fft.rfft(noise.T.reshape(2, -1, 1000))
    cross = (spectra[0] * spectra[1].conj()).mean(0)
    coherence = cross.real / np.sqrt((np.abs(spectra) ** 2).mean(1).prod(0))
    assert coherence[2:6].min() > 0.9  # 32 to 80 Hz
    assert np.abs(coherence[200:]).mean() < 0.15


def test_errors_of_the_place_are_measured(monkeypatch):
    monkeypatch.setattr(stereo, "pesq", lambda *_: 0.0)
    voice = VOICE * np.linspace(1, 0.05, len(VOICE))
    clean = np.stack([voice, 0.5 * voice], 1).astype(np.float32)
    exact, louder, turned = (
        stereo.scores(clean, clean * np.float32(each)) for each in ((1, 1), (1, 2), (1, -1))
    )
    assert exact[3:] == pytest.approx([0, 0], abs=1e-3)
    assert louder[3:] == pytest.approx([6.02, 0], abs=1e-2)
    assert turned[3:] == pytest.approx([0, 180], abs=1e-2)
