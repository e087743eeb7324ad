"""Checks for every sampler: chains are independent, steps are pure, runs resume exactly."""

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
    rng = generator(1)
    together = sampler.init(rng, start)
    for _ in range(steps):
        together = sampler.step(rng, together, target)
    counts = hasattr(together, "accepted")
    assert not counts or 0 < together.accepted.sum()
    for k in range(5):
        rng = Row(generator(1), k, 5)
        alone = sampler.init(rng, start[k])
        for _ in range(steps):
            alone = sampler.step(rng, alone, target)
        np.testing.assert_allclose(alone.theta, together.theta[k], rtol=1e-9)
        if counts:
            assert alone.accepted.shape == ()
            assert alone.accepted == together.accepted[k]


def check_resume(make, sampler, chains, path):
    """`make` returns the target, with its latents at their start."""
    settings = {"seed": 3, "chains": chains, "segment": 10}
    target, fresh = make(), make()
    whole = list(chain.run(target, sampler, steps=25, **settings))
    settings["checkpoint"] = path
    list(chain.run(make(), sampler, steps=20, **settings))
    resumed = list(chain.run(fresh, sampler, steps=25, **settings))
    assert len(resumed) == 5
    for one, two in zip(whole[20:], resumed, strict=True):
        equal_states(one[:2], two[:2])  # the rest of a state may be handed on to the next
    equal_states(whole[-1], resumed[-1])
    equal_states(target.latents.values(), fresh.latents.values())


def equal_states(one, two):
    for field, other in zip(one, two, strict=True):
        if hasattr(field, "_fields"):
            equal_states(field, other)
        else:
            scalars = (np.ndarray, np.generic)  # of one chain, NumPy's own are as good as arrays
            assert type(field) is type(other) or isinstance(field, scalars)
            np.testing.assert_array_equal(field, other)


def check_pure(make, sampler):
    """Step twice alike: a sampler may write into the memory of its state, but not into theta."""
    ends = []
    for target in (make(), make()):
        state = sampler.init(generator(0), target.start(generator(0), (3,)))
        for number in (1, 2, 3):
            held, before = copy.deepcopy(state), state
            state = sampler.step(generator(number), state, target)
            np.testing.assert_array_equal(before.theta, held.theta)
            if not hasattr(getattr(state, "chain", state), "past"):  # what `HAMCMC` overwrites
                equal_states(before[1:], held[1:])
        ends.append(state)
    equal_states(*ends)
