"""HMC without a wall: its potential, its law on positive targets, and HMC within Gibbs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from alphamf.factorization.alpha_mf import FLOOR, AlphaMF, Source
from alphamf.factorization.priors import Gamma
from alphamf.inference.checks import check
from alphamf.inference.laws import P_LEAST, step_many
from alphamf.inference.protocols import Parts
from alphamf.inference.random import generator
from alphamf.inference.samplers import metropolis
from alphamf.inference.samplers.hmc import HMC
from alphamf.inference.samplers.positive import PositiveHMC
from alphamf.inference.samplers.sgrld import SGRLD
from alphamf.inference.targets.unbounded import FLAT, UnboundedPotential, UnboundedTarget

FEW = 4000


class Factors:
    """Independent Gamma laws of several shapes and rates, with a value."""

    positive = True
    size = 3
    latents: dict = {}  # noqa: RUF012
    shape = np.array([0.4, 2.0, 40.0])
    rate = np.array([3.0, 0.01, 5.0])

    def draw(self, rng, theta):
        return self

    def parts(self, theta):
        return Parts(self.rate * np.ones_like(theta), 0 * theta, self.shape, np.ones(3))

    def value(self, theta):
        return (self.rate * theta - (self.shape - 1) * np.log(theta)).sum(-1)

    def least_p(self, theta):
        laws = [stats.gamma(a, scale=1 / b) for a, b in zip(self.shape, self.rate, strict=True)]
        return min(stats.kstest(x, law.cdf).pvalue for x, law in zip(theta.T, laws, strict=True))


def test_value_has_the_gradient():
    space = UnboundedTarget(Factors(), np.array([0.3, 100.0, 0.2]))
    u = np.linspace(-15, 20, 120).reshape(-1, 3)
    potential, d = space.draw(None, u), 1e-4
    assert np.isfinite(potential.value(u)).all()  # also before a gradient
    for k, unit in enumerate(np.eye(3)):
        slope = (potential.value(u + d * unit) - potential.value(u - d * unit)) / (2 * d)
        np.testing.assert_allclose(slope, potential.grad(u)[:, k], rtol=1e-3, atol=1e-3)


def test_value_is_a_line_below_where_priors_floor_theta():
    """In single precision, with alpha-MF's priors, whose values end at 1e-12."""
    target = AlphaMF(np.ones((4, 5), np.float32), [Source(2.0, 2, prior_gains=Gamma(0.1, 1))])
    target.start(generator(0))
    space = UnboundedTarget(target, np.ones(target.size, np.float32))
    u = np.full((3, target.size), 2, np.float32)
    u[:, -1] = FLAT, FLAT - 10, FLAT - 20
    value = [space.draw(None, row).value(row) for row in u]
    assert np.diff(value) == pytest.approx([2.0, 2.0], abs=1e-3)  # 2 x shape x 10


LARGE = HMC(1.2, leaps=3)
"""Of steps so large that a proposal in six or so is refused."""


def least_p(monkeypatch, change=None):
    target = Factors()
    start = generator(5).standard_gamma(target.shape, (FEW, 3)) / target.rate
    space = UnboundedTarget(target, 1 / target.rate)
    if change is not None:
        monkeypatch.setattr(*change)
    return target.least_p(
        space.position(step_many(space, LARGE, space.coordinates(start), steps=8))
    )


def test_law_is_exact_at_large_steps(monkeypatch):
    assert least_p(monkeypatch) > P_LEAST


def without_jacobian(potential, u):
    return potential._potential.value(potential._space.position(u))


def always(rng, before, after):
    return np.isfinite(after)


@pytest.mark.parametrize(
    "change", [(UnboundedPotential, "value", without_jacobian), (metropolis, "metropolis", always)]
)
def test_value_without_jacobian_and_no_test_are_seen(change, monkeypatch):
    assert least_p(monkeypatch, change) < P_LEAST


CLIPS, BINS, FRAMES = 3000, 3, 4
PRIORS = {"prior_basis": Gamma(2.0, 4.0), "prior_gains": Gamma(1.5, 2.0)}


def draw_all(rng, alphas):
    """Draw factors from their priors, Phi from its own, and |X|^2 given both, clip by clip."""
    sources = [Source(alpha, 1, **PRIORS) for alpha in alphas]
    target = AlphaMF(np.ones((CLIPS, BINS, FRAMES)), sources)
    theta = target.start(rng)
    for w, h in target.unpack(theta):
        for factor, prior in zip((w, h), PRIORS.values(), strict=True):
            factor[...] = rng.standard_gamma(prior.shape, factor.shape) / prior.rate
    sigma2 = np.full(target.power.shape, FLOOR)
    for s, (w, h) in enumerate(target.unpack(theta)):
        sigma2 += target.latents.get(f"phi{s}", 2.0) * (w @ h) ** (2 / alphas[s])
    target.power[...] = sigma2 * rng.standard_exponential(sigma2.shape)
    return target, theta


class Joint:
    """Factors, Phi and |X|^2 of alpha-MF from their joint law, with a wall at zero or without."""

    def __init__(self, alphas, wall):
        self.alphas, self.wall = alphas, wall

    def joint(self, rng, chains):
        target, theta = draw_all(rng, self.alphas)
        if self.wall:
            return target, theta
        space = UnboundedTarget(target, np.full(target.size, 0.3))
        return space, space.coordinates(theta)


@pytest.mark.parametrize("alphas", [(1.2, 1.89), (1.0, 2.0)])
@pytest.mark.parametrize("wall", [False, True])
def test_hmc_within_gibbs_keeps_the_joint_law_of_alpha_mf(alphas, wall):
    """Geweke's test: a step moves Phi given W and H, then these given Phi, with a wall or not."""
    sampler = HMC(0.04, leaps=4) if wall else HMC(0.5, leaps=4)
    report = check(sampler, Joint(alphas, wall), steps=4, chains=CLIPS)
    assert report.passed, report


def test_a_phi_that_moves_under_the_energy_is_seen(monkeypatch):
    """The value at the start of a step must be that at the Phi under which the step is made."""
    rng = generator(1)
    right = UnboundedPotential.value

    def late(potential, u):
        value = right(potential, u)
        potential._potential.move_latents(rng, potential._space.position(u))
        return value

    monkeypatch.setattr(UnboundedPotential, "value", late)
    assert not check(HMC(0.5, leaps=4), Joint((1.2, 1.89), False), steps=4, chains=CLIPS).passed


def test_is_sgrld_and_then_hmc_in_frozen_coordinates():
    target = Factors()
    theta = generator(5).standard_gamma(target.shape, (5, 3)) / target.rate
    sampler = PositiveHMC(0.4, leaps=2, warm_up=0.3, decay=0.5, freeze=4)
    found = step_many(target, sampler, theta, steps=12)

    rng = generator(0, 1)
    warm = SGRLD(0.3, decay=0.5)
    state = warm.init(rng, theta)
    for _ in range(4):
        state = warm.step(rng, state, target)
    space, rest = UnboundedTarget(target, state.weight / state.plus), HMC(0.4, leaps=2)
    chain = rest.init(rng, space.coordinates(state.theta))
    for _ in range(8):
        chain = rest.step(rng, chain, space)
    np.testing.assert_array_equal(found, space.position(chain.theta))
