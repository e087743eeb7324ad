"""Channels as one alpha-MF: the basis, the law of the components, and what the model gains."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from alphamf.audio.stft import Frame
from alphamf.denoising.components import common_basis, covariance
from alphamf.denoising.posterior import sample_posterior
from alphamf.denoising.settings import Settings
from alphamf.factorization.stable import positive_stable, symmetric_stable
from alphamf.inference.random import generator
from alphamf.learnt.dictionary import Dictionary

BINS, FRAMES = 33, 240
SPEECH_ALPHA = 1.0


def matrices(rng, channels, rank):
    """Return Hermitian matrices of a rank for seven bins."""
    roots = rng.standard_normal((2, 7, channels, rank))
    root = roots[0] + 1j * roots[1]
    return root @ root.conj().swapaxes(1, 2)


@pytest.mark.parametrize("channels", [2, 3])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_the_basis_makes_both_covariances_diagonal(channels, rank):
    rng = np.random.default_rng(channels)
    speech, noise = matrices(rng, channels, rank), matrices(rng, channels, channels + 1)
    found = common_basis(speech, noise)
    adjoint = found.columns.conj().swapaxes(1, 2)
    for wanted, variance in ((speech, found.speech), (noise, found.noise)):
        rebuilt = found.columns * variance.T[:, None] @ adjoint
        np.testing.assert_allclose(rebuilt, wanted, atol=1e-9 * np.abs(wanted).max())
    np.testing.assert_allclose(np.linalg.norm(found.columns, axis=1), 1)
    ratio = found.speech / found.noise
    assert (np.diff(ratio, axis=0) <= 1e-9).all()
    # The first component has the largest SNR that any filter of the channels can reach.
    filters = rng.standard_normal((7, 100, channels)) + 1j * rng.standard_normal((7, 100, channels))
    reached, left = (
        np.einsum("bkc,bcd,bkd->bk", filters, each, filters.conj()).real
        for each in (speech, noise)
    )
    assert (reached / left <= ratio[0][:, None] * (1 + 1e-9)).all()


def stable_channels(alpha, seconds=20000):
    """Return channels of known components, of which the speech is stable, and their basis."""
    rng = generator(3)
    speech = matrices(rng, 2, 1) + 0.1 * matrices(rng, 2, 2)
    noise = matrices(rng, 2, 3)
    basis = common_basis(speech, noise)
    shape = (2, 7, seconds)
    of_speech = symmetric_stable(rng, alpha, shape, np.float64) * np.sqrt(basis.speech)[..., None]
    of_noise = symmetric_stable(rng, 2.0, shape, np.float64) * np.sqrt(basis.noise / 2)[..., None]
    parts = of_speech + of_noise
    return np.einsum("bcm,mbf->cbf", basis.columns, parts).astype(np.complex64), basis


def test_components_have_the_laws_of_their_sources():
    """The characteristic function of a mixture in each component, and none across components."""
    alpha = 1.3
    spectra, basis = stable_channels(alpha)
    found = basis.components(spectra) / np.sqrt(basis.noise)[..., None]
    # E exp(i Re(z* y)) = exp(-(|z|^2 v_s / 2)^(alpha / 2) - |z|^2 v_n / 4), where v_n is 1.
    wanted = np.exp(-((basis.speech / basis.noise / 2) ** (alpha / 2)) - 1 / 4)
    error = 5 / np.sqrt(spectra.shape[-1])
    real = np.cos(found.real).mean(axis=-1)
    assert np.abs(real - wanted).max() < error
    both = np.cos(found[0].real + found[1].real).mean(axis=-1)
    product = wanted[0] * wanted[1]
    assert np.abs(both - product).max() < error
    turned = basis._replace(columns=np.broadcast_to(np.eye(2), basis.columns.shape))
    channels = turned.components(spectra) / np.sqrt(basis.noise)[..., None]
    assert np.abs(np.cos(channels.real).mean(axis=-1) - wanted).max() > 3 * error


def test_a_covariance_of_one_direction_can_be_inverted():
    rng = np.random.default_rng(0)
    one = (rng.standard_normal((1, 5, 50)) + 0j).astype(np.complex64)
    for spectra in (np.concatenate([one, 0.5 * one]), np.concatenate([one, 0 * one]), 0 * one):
        found = common_basis(covariance(spectra), covariance(spectra))
        inverse = np.linalg.inv(found.columns)
        assert np.isfinite(inverse).all() and np.isfinite(found.speech).all()


def planted(shares):
    """Return the power of two components of a known alpha-MF, and the exact gains of its speech."""
    rng = generator(7)
    w = np.exp(-np.linspace(0, 2, BINS))
    w /= w.sum()
    h = BINS * rng.standard_gamma(2.0, FRAMES)
    speech = (w[:, None] * h) ** (2 / SPEECH_ALPHA) * np.asarray(shares)[:, None, None]
    noise = np.ones_like(speech) / 2  # whose Phi is 2
    phi = positive_stable(rng, SPEECH_ALPHA, np.empty_like(speech))
    power = (phi * speech + 2 * noise) * rng.standard_exponential(speech.shape)
    draws = np.sort(positive_stable(rng, SPEECH_ALPHA, np.empty(4000)))
    # Of the posterior of Phi given W and H, by draws from its prior.
    of_speech = draws[:, None] * speech.reshape(1, -1)
    total = of_speech + 2 * noise.reshape(1, -1)
    log_weight = -np.log(total) - power.reshape(1, -1) / total
    weight = np.exp(log_weight - log_weight.max(axis=0))
    gain = (weight * of_speech / total).sum(axis=0) / weight.sum(axis=0)
    dictionary = Dictionary(
        basis=w[:, None].astype(np.float32), alpha=SPEECH_ALPHA, rate=8000, frame=Frame(64, 32)
    )
    return power.astype(np.float32), gain.reshape(power.shape), dictionary


def test_the_posterior_of_components_is_exact():
    """With one H for both, and shares that are known; with other shares it is not."""
    shares = np.array([0.9, 0.1])
    power, exact, dictionary = planted(shares)
    settings = Settings(alpha_noise=2.0, noise_rank=1, learn_channel=False, refine=False)

    def error(given):
        rows = np.repeat(np.asarray(given)[:, None], BINS, axis=1)
        found = sample_posterior(
            power.reshape(-1, FRAMES), dictionary, settings, (0, 0), shares=rows
        )
        return np.sqrt(np.mean((found.gain.reshape(exact.shape) - exact) ** 2, axis=(1, 2)))

    right, wrong = error(shares), error([0.5, 0.5])
    print(right, wrong, exact.mean(axis=(1, 2)))
    assert right.max() < 0.05
    assert wrong.max() > 2 * right.max()
