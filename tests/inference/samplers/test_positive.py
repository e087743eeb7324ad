"""HAMCMC and HMC without a wall: coordinates, Jacobian, laws on positive targets, broken twins."""

import numpy as np
import pytest
from scipy import stats

from alphamf.factorization.alpha_mf import FLOOR, AlphaMFTarget, Source
from alphamf.factorization.priors import Gamma
from alphamf.inference.chain import run
from alphamf.inference.checks import P_LEAST, check
from alphamf.inference.protocols import Parts
from alphamf.inference.random import generator
from alphamf.inference.samplers import hmc
from alphamf.inference.samplers.hamcmc import HAMCMC
from alphamf.inference.samplers.hmc import HMC
from alphamf.inference.samplers.langevin import SGLD
from alphamf.inference.samplers.positive import PositiveHAMCMC, PositiveHMC
from alphamf.inference.samplers.sgrld import SGRLD
from alphamf.inference.schedule import Polynomial
from alphamf.inference.targets.unbounded import FLAT, LOWEST, UnboundedPotential, UnboundedTarget
from tests.support.differences import central
from tests.support.posteriors import step_many

FEW = 4000


class Factors:
    """Independent Gamma laws of several shapes and rates."""

    positive = True
    size = 3
    latents: dict = {}  # noqa: RUF012
    shape = np.array([0.4, 2.0, 40.0])
    rate = np.array([3.0, 0.01, 5.0])

    def draw(self, rng, theta):
        return self

    def parts(self, theta):
        plus = self.rate.astype(theta.dtype) * np.ones_like(theta)
        return Parts(plus, 0 * theta, self.shape.astype(theta.dtype), np.ones(3, theta.dtype))

    def value(self, theta):
        return (self.rate * theta - (self.shape - 1) * np.log(theta)).sum(-1)

    def sample(self, n=FEW, dtype=np.float64):
        return (generator(5).standard_gamma(self.shape, (n, 3)) / self.rate).astype(dtype)

    def least_p(self, theta):
        laws = [stats.gamma(a, scale=1 / b) for a, b in zip(self.shape, self.rate, strict=True)]
        return min(stats.kstest(x, law.cdf).pvalue for x, law in zip(theta.T, laws, strict=True))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_coordinates_and_position_are_each_others_inverse(dtype):
    space = UnboundedTarget(Factors(), np.array([0.3, 100.0, 0.2], dtype))
    u = np.linspace(LOWEST + 1, 60, 300).astype(dtype).reshape(-1, 3)
    theta = space.position(u)
    assert theta.dtype == dtype
    back = space.coordinates(theta)
    assert back.dtype == dtype
    np.testing.assert_allclose(back, u, rtol=1e-5 if dtype is np.float32 else 1e-10, atol=1e-5)
    np.testing.assert_allclose(space.coordinates(np.zeros((1, 3), dtype)), LOWEST, rtol=1e-6)


def test_gradient_is_that_of_the_law_with_its_jacobian():
    target, scale = Factors(), np.array([0.3, 100.0, 0.2])
    space = UnboundedTarget(target, scale)
    u = np.linspace(-15, 20, 120).reshape(-1, 3)
    d = 1e-4

    def minus_log_density(u):
        theta = space.position(u)
        slope = (space.position(u + d) - space.position(u - d)) / (2 * d)
        return target.rate * theta - (target.shape - 1) * np.log(theta) - np.log(slope)

    expected = (minus_log_density(u + d) - minus_log_density(u - d)) / (2 * d)
    np.testing.assert_allclose(space.draw(None, u).grad(u), expected, rtol=1e-4, atol=1e-4)
    low = np.full((1, 3), -1e4)
    np.testing.assert_allclose(space.draw(None, low).grad(low)[0], -2 * target.shape, atol=1e-6)


@pytest.mark.parametrize("kind", [PositiveHAMCMC, PositiveHMC])
def test_is_sgrld_and_then_the_sampler_in_frozen_coordinates(kind):
    target, theta = Factors(), Factors().sample(5)
    settings = {"decay": 0.5, "freeze": 4}
    if kind is PositiveHMC:
        sampler, warm = kind(0.4, leaps=2, warm_up=0.3, **settings), SGRLD(0.3, decay=0.5)
        rest = HMC(0.4, leaps=2)
    else:
        steps = Polynomial(0.1)
        sampler, warm = kind(steps, memory=3, trust=2.0, **settings), SGRLD(steps, decay=0.5)
        rest = HAMCMC(steps, memory=3, gamma=1.0, trust=2.0)
    found = step_many(target, sampler, theta, steps=12)

    rng = generator(0, 1)
    state = warm.init(rng, theta)
    for _ in range(4):
        state = warm.step(rng, state, target)
    space = UnboundedTarget(target, state.weight / state.plus)
    chain = rest.init(rng, space.coordinates(state.theta))
    if kind is PositiveHAMCMC:
        chain = chain._replace(step=4)
    for _ in range(8):
        chain = rest.step(rng, chain, space)
    np.testing.assert_array_equal(found, space.position(chain.theta))


def test_run_in_the_coordinates_resumes_with_the_latents_of_a_start_made_later(tmp_path):
    def go(steps, **settings):
        power = generator(1).standard_exponential((12, 20)).astype(np.float32)
        target = AlphaMFTarget(power, [Source(2.0, 3, prior_gains=Gamma(0.3, 0.5)), Source(1.7, 2)])
        space = UnboundedTarget(target, np.full(target.size, 0.1, np.float32))
        start = space.coordinates(target.start(generator(3)))
        states = run(space, SGLD(0.01), steps=steps, seed=0, start=start, segment=10, **settings)
        return list(states)[-1].theta

    unbroken = go(20)
    go(10, checkpoint=tmp_path / "run.npz")
    np.testing.assert_array_equal(go(20, checkpoint=tmp_path / "run.npz"), unbroken)


def test_value_has_the_gradient():
    space = UnboundedTarget(Factors(), np.array([0.3, 100.0, 0.2]))
    u = np.linspace(-15, 20, 120).reshape(-1, 3)
    potential = space.draw(None, u)
    assert np.isfinite(potential.value(u)).all()  # also before a gradient
    slope = central(potential.value, u, 1e-4)
    np.testing.assert_allclose(slope, potential.grad(u), rtol=1e-3, atol=1e-3)


def test_value_is_a_line_below_where_priors_floor_theta():
    """In single precision, with alpha-MF's priors, whose values end at 1e-12."""
    target = AlphaMFTarget(np.ones((4, 5), np.float32), [Source(2.0, 2, prior_gains=Gamma(0.1, 1))])
    target.start(generator(0))
    space = UnboundedTarget(target, np.ones(target.size, np.float32))
    u = np.full((3, target.size), 2, np.float32)
    u[:, -1] = FLAT, FLAT - 10, FLAT - 20
    value = [space.draw(None, row).value(row) for row in u]
    assert np.diff(value) == pytest.approx([2.0, 2.0], abs=1e-3)  # 2 x shape x 10


def test_law_is_exact_at_steps_of_which_one_in_six_is_refused(monkeypatch):
    target, large = Factors(), HMC(1.2, leaps=3)
    space = UnboundedTarget(target, 1 / target.rate)

    def least_p():
        start = space.coordinates(target.sample())
        return target.least_p(space.position(step_many(space, large, start, steps=8)))

    assert least_p() > P_LEAST
    monkeypatch.setattr(hmc, "metropolis", lambda rng, before, after: np.isfinite(after))
    assert least_p() < P_LEAST


CLIPS, BINS, FRAMES = 3000, 3, 4
PRIORS = {"prior_basis": Gamma(2.0, 4.0), "prior_gains": Gamma(1.5, 2.0)}


def draw_all(rng, alphas):
    """Draw factors from their priors, Phi from its own, and |X|^2 given both, clip by clip."""
    sources = [Source(alpha, 1, **PRIORS) for alpha in alphas]
    target = AlphaMFTarget(np.ones((CLIPS, BINS, FRAMES)), sources)
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
        potential.potential.move_latents(rng, potential.space.position(u))
        return value

    monkeypatch.setattr(UnboundedPotential, "value", late)
    assert not check(HMC(0.5, leaps=4), Joint((1.2, 1.89), False), steps=4, chains=CLIPS).passed
