"""Pairs between chains: which H a chain moves under, written out."""

from __future__ import annotations

import numpy as np
import pytest

from alphamf.inference.random import generator
from alphamf.inference.samplers import compact, ensemble_pairs
from alphamf.inference.samplers.hamcmc_momentum import HAMCMCMomentum
from alphamf.inference.samplers.hamcmc_richardson import HAMCMCRichardson
from tests.support.bfgs import dense
from tests.support.posteriors import space


@pytest.mark.parametrize("kind", [HAMCMCMomentum, HAMCMCRichardson])
@pytest.mark.parametrize("trust", [0.0, 4.0])
def test_h_is_of_the_pairs_between_the_chains_that_rest(kind, trust):
    target = space()
    sampler = kind(0.3, memory=4, gamma=0.05, trust=trust)
    rng = generator(1)
    state = sampler.init(rng, target.start(rng))
    chain = [state.theta] * 4
    for t in range(11):
        inverse = ensemble_pairs.inverse(state.members, t, 0.05)
        np.testing.assert_array_equal(state.members.past[t % 4], chain[-4])
        # chain[-4] moves; the pairs between the three others.
        s = np.diff(chain[-3:], axis=0)
        y = s @ target.precision + trust * s
        used = np.abs(s).sum(-1) > 0
        g = np.array([1.0, -2.0, 0.5])
        np.testing.assert_allclose(
            inverse.apply(g), dense(s[used], y[used], 0.05) @ g, rtol=1e-8, atol=1e-12
        )
        for kept, made in zip(
            state.members.products,
            compact.products(state.members.s, state.members.y),
            strict=True,
        ):
            np.testing.assert_allclose(kept, made, rtol=1e-10)
        state = sampler.step(rng, state, target)
        chain.append(state.theta.copy())
