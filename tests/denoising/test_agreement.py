"""How far chains agree: what is stated is what another seed finds."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from alphamf.audio.stft import Frame
from alphamf.denoising.api import denoise, denoise_stream
from alphamf.denoising.posterior import sum_agreements
from alphamf.denoising.settings import Settings
from alphamf.learnt.dictionary import Dictionary

RATE = 8000
SETTLED = Settings(warm_up=30, steps=60, keep=40, chains=2, noise_rank=2)
HASTY = replace(SETTLED, warm_up=0, steps=1, keep=1)


def voiced() -> Dictionary:
    """Return a dictionary of two spectra, each with four peaks."""
    grid = np.arange(65)[:, None, None]
    peaks = np.array([[6, 12, 18, 24], [9, 18, 27, 36]])
    spectra = (np.exp(-((grid - peaks) ** 2) / 2)).sum(-1) + 0.01
    basis = np.concatenate([spectra] * 2).astype(np.float32)
    return Dictionary(basis / basis.sum(0), 1.2, RATE, Frame(128, 32), 2)


def sound(seconds: float = 1.0, seed: int = 0):
    """Return tones of the first spectrum, on and off, in white noise."""
    t = np.arange(int(seconds * RATE)) / RATE
    tones = sum(np.sin(2 * np.pi * 62.5 * bin_ * t) for bin_ in (6, 12, 18, 24))
    noise = np.random.default_rng(seed).standard_normal(len(t))
    return (0.1 * tones * (np.sin(2 * np.pi * 2 * t) > 0) + 0.1 * noise).astype(np.float32)


def run(audio, settings=SETTLED, **options):
    return denoise(audio, RATE, settings, model=voiced(), **options)


@cache
def by_seed(chains):
    """Return what six seeds give."""
    settings = replace(SETTLED, chains=chains)
    return [run(sound(0.5), settings, seed=seed) for seed in range(6)]


@pytest.mark.parametrize("chains", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_stated_error_is_the_difference_that_another_seed_makes(chains):
    results = by_seed(chains)
    outputs = np.stack([result.audio for result in results])
    found = np.sqrt(outputs.var(0, ddof=1).sum() / (outputs.mean(0) ** 2).sum())
    stated = [10 ** (result.agreement.mcse_db / 20) - 1 for result in results]
    # A variance that is not shared out among the chains would be 1.4 or 2 times as far off.
    assert np.sqrt(np.mean(np.square(stated))) == pytest.approx(found, rel=0.25)
    # That of two chains has the root of 2 C times the error of their mean.
    differences = [10 ** (result.agreement.difference_db / 20) - 1 for result in results]
    np.testing.assert_allclose(differences, np.sqrt(2 * chains) * np.array(stated), rtol=1e-6)


def test_effective_draws_predict_the_error():
    # As many draws, less of them effective: the error of the posterior mean, before any network.
    results = by_seed(SETTLED.chains)
    gains = np.stack([result.gain[0] for result in results])
    spread = np.stack([result.gain_std[0] for result in results])
    tones = gains.mean(0) > 0.5
    found = (spread.mean(0)[tones] ** 2).sum() / gains.var(0, ddof=1)[tones].sum()
    stated = np.mean([result.agreement.ess for result in results])
    assert stated == pytest.approx(found, rel=0.3)
    assert stated < 0.7 * 2 * SETTLED.keep / SETTLED.thin


def test_chains_that_settled_agree_and_hasty_ones_do_not():
    settled, hasty = (run(sound(), settings).agreement for settings in (SETTLED, HASTY))
    assert settled.difference_db < 0.5 and hasty.difference_db > 3
    assert 0.98 < settled.rhat < 1.05 and settled.rhat < settled.rhat_95 < 1.3
    assert (hasty.draws, hasty.rhat, hasty.rhat_95) == (1, None, None)


def test_chains_that_have_not_forgotten_their_start_have_a_large_rhat():
    begun = replace(SETTLED, warm_up=0, steps=16, keep=16, thin=1)
    assert run(sound(), begun).agreement.rhat > 1.3


def test_one_chain_and_silence_say_nothing():
    assert run(sound(), replace(SETTLED, chains=1)).agreement is None
    assert run(np.zeros(4000, np.float32)).agreement is None


def test_agreement_on_two_sounds_lies_between():
    one, other = run(sound()).agreement, run(sound(0.25)).agreement
    assert sum_agreements([one, None]) == one != other
    both = sum_agreements([one, other])
    low, high = sorted([one.mcse_db, other.mcse_db])
    assert low <= both.mcse_db <= high


def test_level_makes_no_difference_alone_and_is_the_weight_of_parts():
    loud, faint = (run(scale * sound()).agreement for scale in (1, 2.0**-10))
    assert faint.facts() == pytest.approx(loud.facts(), rel=1e-5)
    other = run(2.0**-10 * sound(), HASTY).agreement
    assert sum_agreements([replace(loud, draws=1), other]).mcse_db == pytest.approx(
        loud.mcse_db, rel=1e-3
    )


def test_a_recording_has_the_sum_of_its_segments():
    audio, quick = sound(17), replace(SETTLED, warm_up=4, steps=8, keep=8, thin=1)
    whole = run(audio, quick).agreement
    segments = denoise_stream([audio[:, None]], RATE, quick, model=voiced())
    parts = [segment.agreement for segment in segments]
    assert len(parts) == 2
    assert sum_agreements(parts) == whole


def test_channels_count_together():
    audio = sound()
    stereo = run(np.stack([audio, audio], axis=1)).agreement
    assert stereo.facts() == pytest.approx(run(audio).agreement.facts())
