"""Channels as one alpha-MF: the basis, the law of the components, and what the model gains."""

from dataclasses import replace

import numpy as np
import pytest
import soundfile

from alphamf import PRESETS, denoise
from alphamf.audio.resample import resample
from alphamf.audio.stft import Frame
from alphamf.denoising.components import ChannelGains, common_basis, covariance
from alphamf.denoising.posterior import Posterior, sample_posterior
from alphamf.factorization.stable import positive_stable, symmetric_stable
from alphamf.inference.random import generator
from alphamf.learnt.dictionary import Dictionary
from alphamf.scores.score import si_sdr
from tests.support.places import DATA

BINS, FRAMES = 129, 100
SPEECH_ALPHA = 1.0
QUICK = replace(PRESETS["plain"], warm_up=12, steps=24, keep=12)
PLANTED = replace(PRESETS["plain"], alpha_noise=2.0, noise_rank=1, learn_channel=False, warm_up=100)


@pytest.fixture(autouse=True)
def _short_chains_count(monkeypatch):
    """Let chains that are short enough for a test model components."""
    monkeypatch.setattr("alphamf.denoising.estimate.LONG", 1)


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
        np.einsum("bkc,bcd,bkd->bk", filters, each, filters.conj()).real for each in (speech, noise)
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
    # Of the posterior of Phi given W and H, by quantiles of its prior.
    draws = np.sort(positive_stable(rng, SPEECH_ALPHA, np.empty(40000)))[50::100]
    of_speech = draws[:, None] * speech.reshape(1, -1)
    total = of_speech + 2 * noise.reshape(1, -1)
    log_weight = -np.log(total) - power.reshape(1, -1) / total
    weight = np.exp(log_weight - log_weight.max(axis=0))
    gain = (weight * of_speech / total).sum(axis=0) / weight.sum(axis=0)
    dictionary = Dictionary(
        basis=w[:, None].astype(np.float32), alpha=SPEECH_ALPHA, rate=8000, frame=Frame(256, 128)
    )
    return power.astype(np.float32), gain.reshape(power.shape), dictionary


def test_the_posterior_of_components_is_exact():
    """With one H for both, and shares that are known; with other shares it is not."""
    shares = np.array([0.9, 0.1])
    power, exact, dictionary = planted(shares)
    settings = replace(PLANTED, steps=1200, keep=900, thin=4)

    def error(given):
        rows = np.repeat(np.asarray(given)[:, None], BINS, axis=1)
        found = sample_posterior(
            power.reshape(-1, FRAMES), dictionary, settings, (0, 0), shares=rows
        )
        return np.abs((found.gain.reshape(exact.shape) - exact).mean(axis=(1, 2)))

    right, wrong = error(shares), error([0.7, 0.3])
    assert right.max() < 0.04  # .021
    assert wrong.max() > 0.08  # .106


def test_gains_of_channels_are_weighted_with_power():
    """Means and deviations over draws of independent components, and those of each chain."""
    rng = np.random.default_rng(5)
    parts = rng.standard_normal((2, 4, 6)) + 1j * rng.standard_normal((2, 4, 6))
    columns = rng.standard_normal((4, 2, 2)) + 0j
    draws = rng.beta(2, 3, (20000, 2, 4, 6))
    weights = np.abs(columns.transpose(1, 2, 0)[..., None] * parts) ** 2
    weights /= weights.sum(axis=1, keepdims=True)
    wanted = np.einsum("cmbf,kmbf->kcbf", weights, draws)
    rows = draws.reshape(20000, 8, 6)
    none = np.zeros((8, 6))
    posterior = Posterior(rows.mean(0), rows.std(0), none, none, [1.0, 1.0], draws=1)
    found = ChannelGains(parts, columns).posterior(posterior)
    np.testing.assert_allclose(found.gain, wanted.mean(0), atol=1e-5)
    np.testing.assert_allclose(found.gain_std, wanted.std(0), atol=0.005)


@pytest.fixture(scope="module")
def voice():
    clean, rate = soundfile.read(DATA / "sample-clean.wav", dtype="float32", frames=48000)
    return resample(clean, rate, 8000), 8000


def diffuse(samples, channels, level):
    """Return noise whose channels are coherent at low frequencies only, like speech in level."""
    rng = np.random.default_rng(1)
    spectra = np.fft.rfft(rng.standard_normal((channels, samples)))
    frequency = np.linspace(0, 1, spectra.shape[1])
    spectra *= 1 / (1 + 8 * frequency)
    spectra[1:] = np.sqrt(1 - frequency) * spectra[0] + np.sqrt(frequency) * spectra[1:]
    noise = np.fft.irfft(spectra, samples)
    return (level * noise / noise.std()).astype(np.float32).T


def score(clean, audio):
    return np.mean([si_sdr(*pair) for pair in zip(clean.T, audio.T, strict=True)])


@pytest.mark.slow
def test_one_model_hears_more_than_the_channels_alone(voice, monkeypatch):
    """A noise from one side: linked channels with a chain for each, and with one for all."""
    clean, rate = voice
    clean = np.stack([clean, np.roll(clean, 4)], 1)[:20000]
    noise = diffuse(len(clean), 2, 0.5 * clean.std())
    noise = np.stack([noise[:, 0], np.roll(noise[:, 0], -6)], 1) + 0.1 * noise
    noisy, settings = clean + noise, PRESETS["plain"]
    found = denoise(noisy, rate, settings).audio
    separate = denoise(noisy, rate, replace(settings, channels="separate")).audio
    monkeypatch.setattr("alphamf.denoising.estimate.LONG", settings.steps + 1)
    linked = denoise(noisy, rate, settings).audio
    assert score(clean, found) > score(clean, linked) + 1.5
    assert score(clean, linked) > score(clean, separate) + 1.5


@pytest.mark.parametrize("rate", [8000, 44100])
def test_rates_and_three_channels(voice, rate):
    clean, native = voice
    clean = resample(clean[:12000], native, rate)
    clean = np.stack([clean, 0.5 * clean, np.roll(clean, rate // 4000)], 1)
    noisy = clean + diffuse(len(clean), 3, 0.5 * clean.std())
    settings = replace(QUICK, steps=8, keep=4, warm_up=8)
    found = denoise(noisy, rate, settings)
    assert score(clean, found.audio) > score(clean, noisy) + 2
    assert found.gain.shape == found.gain_std.shape and len(found.gain) == 3
    assert found.gain.min() >= 0 and found.gain.max() <= 1
    assert 0 < found.gain_std.max() <= 0.5


@pytest.mark.parametrize("sampler", ["sgld", "em", "hmc-positive"])
def test_samplers_and_chains(voice, sampler):
    clean, rate = voice
    noisy = clean[:12000, None] + diffuse(12000, 2, 0.5 * clean.std())
    settings = replace(QUICK, steps=8, keep=8, sampler=sampler, chains=2)
    found = denoise(noisy, rate, settings)
    assert np.isfinite(found.audio).all()
    assert found.agreement.chains == 2 and found.agreement.rhat is not None
    assert found.agreement.difference_db > 0
    assert len(found.acceptance) == (3 if sampler == "hmc-positive" else 2)


def test_channels_that_are_nearly_the_same(voice):
    """Covariances of one direction: a copy at another level, and one sample that differs."""
    clean, rate = voice[0][:12000], voice[1]
    noisy = clean + diffuse(len(clean), 1, 0.5 * clean.std())[:, 0]
    (single,) = denoise(noisy, rate, QUICK).audio[None]
    copy = noisy.copy()
    copy[100] *= 1.001
    for other in (0.5 * noisy, copy):
        found = denoise(np.stack([noisy, other], 1), rate, QUICK).audio
        assert si_sdr(clean, found[:, 0]) > si_sdr(clean, single) - 1
        assert si_sdr(clean, found[:, 1]) > si_sdr(clean, single) - 1
    twin = denoise(np.stack([noisy, noisy], 1), rate, QUICK).audio
    np.testing.assert_array_equal(twin, np.stack([single, single], 1))


def test_silence_in_channels_and_in_places(voice):
    clean, rate = voice
    noisy = clean[:, None] + diffuse(len(clean), 2, 0.5 * clean.std())
    with_silent = np.stack([*noisy.T, 0 * clean], 1)
    found, two = (denoise(x, rate, QUICK) for x in (with_silent, noisy))
    np.testing.assert_array_equal(found.audio[:, :2], two.audio)
    assert not found.audio[:, 2].any()
    gaps = noisy.copy()
    gaps[6000:12000] = 0
    gaps[14000:18000, 1] = 0
    found = denoise(gaps, rate, QUICK)
    assert np.isfinite(found.audio).all() and np.isfinite(found.gain).all()
    assert np.abs(found.audio[7000:11000]).max() < 1e-6


def test_other_channels_are_as_alone(voice):
    """Two voices, and known noise, for which channels have no components."""
    clean, rate = voice[0][:16000], voice[1]
    noisy = np.stack([clean, np.roll(clean, 8000)], 1) + diffuse(len(clean), 2, 0.01)
    found, alone = (
        denoise(noisy, rate, replace(QUICK, channels=n)) for n in ("linked", "separate")
    )
    np.testing.assert_array_equal(found.audio, alone.audio)
    np.testing.assert_array_equal(found.gain_std, alone.gain_std)


def test_short_chains_are_for_each_channel_alone(voice, monkeypatch):
    clean, rate = voice
    noisy = clean[:5000, None] + diffuse(5000, 2, 0.5 * clean.std())
    joint = denoise(noisy, rate, QUICK).gain
    for steps, same in ((QUICK.steps, True), (QUICK.steps + 1, False)):
        monkeypatch.setattr("alphamf.denoising.estimate.LONG", steps)
        assert np.array_equal(joint, denoise(noisy, rate, QUICK).gain) == same
    alone = denoise(noisy, rate, replace(QUICK, channels="separate")).gain
    np.testing.assert_array_equal(denoise(noisy, rate, QUICK).gain, alone)


def test_many_channels_are_modelled_in_parts(voice, monkeypatch):
    clean, rate = voice
    clean = clean[:12000]
    noisy = clean[:, None] + diffuse(12000, 3, 0.5 * clean.std())
    monkeypatch.setattr("alphamf.denoising.estimate.MOST_COMPONENTS", 2)
    found = denoise(noisy, rate, QUICK).gain
    alone = denoise(noisy[:, 2], rate, QUICK).gain
    np.testing.assert_array_equal(found[2], alone[0])
    assert not np.array_equal(found[0], denoise(noisy[:, 0], rate, QUICK).gain[0])
