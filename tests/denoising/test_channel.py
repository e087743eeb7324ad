"""The channel: the response laid over a dictionary is found, and only while it should be."""

import numpy as np
import pytest

from alphamf.denoising.sampling import Channel
from alphamf.factorization.alpha_mf import AlphaMFTarget, Source, stack
from alphamf.inference.random import generator
from alphamf.inference.samplers.sgrld import EM

BINS, FRAMES, RANK = 129, 200, 6


def coloured(context, seed=0):
    """Power of sound from a known basis, coloured by a known smooth response; both in dB."""
    rng = generator(seed)
    basis = rng.random((BINS, RANK)).astype(np.float32) ** 4
    gains = rng.standard_gamma(0.5, (RANK, FRAMES)).astype(np.float32)
    response_db = 10 * np.cos(np.linspace(0, 3 * np.pi, BINS)).astype(np.float32)
    clean = basis @ gains
    power = clean * 10 ** (response_db / 10)[:, None]
    power = power * rng.standard_exponential(power.shape, dtype=np.float32)
    stacked = np.concatenate([basis] * context) / (context * basis.sum(0))
    return stack(power / power.mean(), context), stacked, response_db


def learnt(power, basis, context=1, components=1):
    """Return the factors of the power that a channel has learnt, shape (rows, columns)."""
    target = AlphaMFTarget(power, [Source(2.0, RANK, basis.copy())])
    rng = generator(1)
    channel = Channel(target, 0, context, spacing=31.25, burn_in=200, components=components)
    sampler = EM(1.5)
    state = sampler.init(rng, target.start(rng))
    for _ in range(200):
        state = sampler.step(rng, state, target)
        channel.move(state)
    return target.sources[0].basis / basis


@pytest.mark.parametrize("context", [1, 3])
def test_a_smooth_response_is_recovered(context):
    power, basis, response_db = coloured(context)
    ratio = learnt(power, basis, context)
    found_db = 10 * np.log10(ratio.mean(1))[:BINS]
    inner = slice(8, BINS - 8)  # the smoothing has less to go by at the edges
    error = (found_db - found_db[inner].mean()) - (response_db - response_db[inner].mean())
    assert np.abs(error[inner]).max() < 3
    assert np.abs(error[inner]).mean() < 1
    np.testing.assert_allclose(np.log(ratio[:BINS]).mean(0), 0, atol=1e-3)  # the level is H's
    # One response for all frames of the context and all columns.
    np.testing.assert_allclose(ratio[:BINS], ratio[-BINS:], rtol=1e-4)


def test_components_are_smoothed_apart():
    """The response falls by 20 dB towards the end of a component, where the next one begins."""
    power, basis, response_db = coloured(1)
    power, basis = np.concatenate([power] * 2), np.concatenate([basis] * 2) / 2
    wanted = np.concatenate([response_db] * 2)
    edge = slice(BINS - 3, BINS + 3)
    apart, mixed = (
        np.abs((found - found.mean() - wanted + wanted.mean())[edge]).mean()
        for found in (10 * np.log10(learnt(power, basis, components=n).mean(1)) for n in (2, 1))
    )
    assert apart < 2
    assert mixed > 2 * apart


def test_the_basis_rests_outside_of_its_steps():
    power, basis, _ = coloured(1)
    target = AlphaMFTarget(power, [Source(2.0, RANK, basis.copy())])
    rng = generator(1)
    channel = Channel(target, 0, 1, spacing=31.25, burn_in=40)
    sampler = EM()
    state = sampler.init(rng, target.start(rng))
    moved = []
    for _ in range(60):
        state = sampler.step(rng, state, target)
        before = target.sources[0].basis.copy()
        channel.move(state)
        moved.append(not np.array_equal(before, target.sources[0].basis))
    assert any(moved)
    assert not any(moved[:4])
    assert not any(moved[30:])
