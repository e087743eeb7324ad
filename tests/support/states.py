"""Checks for every sampler: chains are independent, steps are pure, runs resume exactly."""

from __future__ import annotations

import copy

import numpy as np

from alphamf.inference import chain
from alphamf.inference.random import generator


class Row:
    """A generator that draws for many chains, and returns the draws of one."""

    def __init__(self, rng, chain, chains):
        self.rng, self.chain, self.chains = rng, chain, chains

    def __getattr__(self, name):
        def draw(shape, dtype):
            return getattr(self.rng, name)((self.chains, *shape), dtype=dtype)[self.chain]

        return draw


def check_alone(target, sampler, steps=4):
    start = target.start(generator(0), (5,))
    together = sampler.init(generator(1), start)
    rng = generator(1)
    for _ in range(steps):
        together = sampler.step(rng, together, target)
    assert 0 < together.accepted.sum()
    for k in range(5):
        rng = Row(generator(1), k, 5)
        alone = sampler.init(rng, start[k])
        for _ in range(steps):
            alone = sampler.step(rng, alone, target)
        np.testing.assert_allclose(alone.theta, together.theta[k], rtol=1e-9)
        assert alone.accepted.shape == ()
        assert alone.accepted == together.accepted[k]


def check_resume(target, sampler, chains, path):
    whole = list(chain.run(target, sampler, steps=25, seed=3, chains=chains, segment=10))
    settings = {"seed": 3, "chains": chains, "segment": 10, "checkpoint": path}
    list(chain.run(target, sampler, steps=20, **settings))
    resumed = list(chain.run(target, sampler, steps=25, **settings))
    assert len(resumed) == 5
    for one, two in zip(whole[20:], resumed, strict=True):
        equal_states(one, two)


def equal_states(one, two):
    for field, other in zip(one, two, strict=True):
        if hasattr(field, "_fields"):
            equal_states(field, other)
        else:
            np.testing.assert_array_equal(field, other)


def check_pure(target, sampler):
    state = sampler.init(generator(0), target.start(generator(0), (3,)))
    state = sampler.step(generator(1), state, target)
    before = copy.deepcopy(state)
    once = sampler.step(generator(2), state, target)
    twice = sampler.step(generator(2), state, target)
    equal_states(state, before)
    equal_states(once, twice)
