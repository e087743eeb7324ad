"""The warm-up: on a few frames first, where there are enough of them."""

from dataclasses import replace

import numpy as np
import pytest

from alphamf.audio.stft import Frame
from alphamf.denoising import sampling
from alphamf.denoising.posterior import sample_posterior
from alphamf.denoising.settings import Settings
from alphamf.factorization.alpha_mf import AlphaMFTarget, Source
from alphamf.inference.random import generator
from alphamf.learnt.dictionary import Dictionary

BINS, RANK = 65, 6
WHOLE = Settings(warm_up=12)
COARSE = replace(WHOLE, coarse=4)
FRAMES = sampling.FEWEST * COARSE.coarse
"""As few as a warm-up on every fourth frame asks for."""


def mixture(frames, clips=()):
    """Return the target of a known and an unknown source whose gains last for some frames."""
    rng = generator(0)
    bases = rng.random((2, BINS, RANK)).astype(np.float32) ** 4
    gains = rng.standard_gamma(0.3, (*clips, 2, RANK, frames // 8 + 1)).astype(np.float32)
    power = (bases @ np.repeat(gains, 8, -1)[..., :frames]).sum(-3)
    power *= rng.standard_exponential(power.shape, dtype=np.float32)
    known = bases[0] / bases[0].sum(0)
    return AlphaMFTarget(power / power.mean(), [Source(2.0, RANK, known), Source(2.0, 4)])


def potential(target, theta):
    return float(target.potential().value(theta))


def test_a_few_frames_lead_near_to_the_mode():
    """Three quarters of the way from the last steps alone to all steps on all frames."""
    target = mixture(2 * FRAMES)
    whole, coarse, few = (
        potential(target, sampling.start_chain(target, (), settings, (0, 0)))
        for settings in (WHOLE, COARSE, replace(WHOLE, warm_up=sampling.LAST_STEPS))
    )
    # 21100, 21850 and 24080; 22890 where W of the noise is not handed on, 24230 with H out of place
    assert coarse < whole + 0.3 * (few - whole)


@pytest.mark.parametrize("frames", [FRAMES - 1, FRAMES])
def test_a_short_recording_is_read_as_a_whole(frames):
    target = mixture(frames)
    one, other = (
        sampling.start_chain(target, (), settings, (0, 0)) for settings in (WHOLE, COARSE)
    )
    assert np.array_equal(one, other) == (frames < FRAMES)


@pytest.mark.parametrize(("chains", "clips"), [((), ()), ((2,), ()), ((), (3,)), ((2,), (3,))])
def test_chains_and_clips_begin_apart(chains, clips):
    target = mixture(FRAMES + 1, clips)
    theta = sampling.start_chain(target, chains, COARSE, (0, 0))
    assert theta.shape == (*chains, *clips, target.size)
    assert np.isfinite(theta).all() and (theta >= 0).all()
    flat = theta.reshape(-1, target.size)
    assert len({each.tobytes() for each in flat}) == len(flat)


def test_no_two_runs_share_random_numbers(monkeypatch):
    used, genuine = [], sampling.run

    def noted(*arguments, **options):
        used.append(options["chain"])
        return genuine(*arguments, **options)

    monkeypatch.setattr(sampling, "run", noted)
    power = np.random.default_rng(0).random((BINS, FRAMES)).astype(np.float32)
    basis = np.full((BINS, 1), 1 / BINS, np.float32)
    dictionary = Dictionary(basis, alpha=2.0, rate=8000, frame=Frame(128, 32))
    settings = replace(COARSE, steps=4, keep=4, thin=1, chains=2)
    for number in range(2):
        posterior = sample_posterior(power, dictionary, settings, (0, number))
        assert posterior.draws == sum(half.draws for half in posterior.chains.halves) == 4
        parts = posterior.chains.posteriors
        pooled = np.mean([each.gain_std**2 for each in parts], 0) + np.var(
            [p.gain for p in parts], 0
        )
        np.testing.assert_allclose(posterior.gain_std, np.sqrt(pooled), rtol=1e-5)
    assert len(used) == len(set(used)) == 6  # EM on some frames, EM on all, and the chain
