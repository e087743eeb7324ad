"""HMC and RHMC: exact laws, the integrators, mirroring under a dense mass, and broken twins."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import stats

from alphamf.inference.checks import CHAINS, P_LEAST
from alphamf.inference.metric import Dense, Diagonal
from alphamf.inference.random import generator
from alphamf.inference.samplers import hmc
from alphamf.inference.samplers.hmc import HMC, HMCBFGS, RHMC, ExtendedPotential, leapfrog
from alphamf.inference.samplers.qnhmc import QNHMC
from tests.support.differences import central
from tests.support.momenta import FixedMass
from tests.support.posteriors import (
    MIXED,
    Crossed,
    Curved,
    CurvedOrthant,
    Orthant,
    Quartic,
    space,
    step_many,
)
from tests.support.twins import AcceptsAll, OneSign, Wrong, twin, wrong_metric, wrong_way


def exact_step(target, sampler, *, n=CHAINS, seed=0, dtype=np.float64):
    """Step n chains once from the exact law, and return where they are."""
    return step_many(target, sampler, target.start(generator(seed, 0), (n,), dtype), seed=seed)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hmc_leaves_a_quartic_law(dtype, monkeypatch):
    target, sampler = Quartic(), HMC(0.6, 4)
    theta = exact_step(target, sampler, dtype=dtype)
    assert theta.dtype == dtype
    assert target.p_value(theta) > P_LEAST
    untested = twin(sampler, AcceptsAll)
    assert target.p_value(exact_step(target, untested, dtype=dtype)) < P_LEAST
    monkeypatch.setattr(hmc, "metropolis", wrong_way)
    assert target.p_value(exact_step(target, sampler, dtype=dtype)) < P_LEAST


class Swapped(FixedMass):
    """A mass whose momenta are drawn from its inverse."""

    def inverse(self, state):
        return wrong_metric(super().inverse(state), inverse_root=lambda right, z: right.root(z))


def test_hmc_draws_its_momentum_from_the_mass():
    target, sampler = Quartic(), HMC(0.4, 4, FixedMass(MIXED))
    assert target.p_value(exact_step(target, sampler)) > P_LEAST
    sampler = HMC(0.4, 4, Swapped(MIXED))
    assert target.p_value(exact_step(target, sampler)) < P_LEAST


@pytest.mark.parametrize("mass", [None, (0.5, 2.0), MIXED])
def test_hmc_leaves_a_positive_law(mass):
    target = Orthant()
    sampler = HMC(0.6, 4) if mass is None else HMC(0.6, 4, FixedMass(mass))
    theta = exact_step(target, sampler)
    assert (theta >= 0).all()
    assert target.p_value(theta) > P_LEAST
    if mass is MIXED:  # signs do not matter with a diagonal mass; with a dense one they are random
        assert target.p_value(exact_step(target, twin(sampler, OneSign))) < P_LEAST


def test_hmc_is_its_algorithm_written_out():
    target, precision = space(), np.diag([2.0, 1.0, 0.5])
    sampler = HMC(lambda t: 0.6 / (t + 2), 3, FixedMass(np.linalg.inv(precision)))
    start = target.start(generator(1))
    steps = 6
    theta = step_many(target, sampler, start, steps=steps, seed=3)

    rng = generator(3, 1)
    expected, potential = start, target.draw(None, start)
    for t in range(steps):
        h = 0.6 / (t + 2)
        p = p0 = np.sqrt(np.diag(precision)) * rng.standard_normal(3)
        q = expected
        for _ in range(3):
            p = p - h / 2 * potential.grad(q)
            q = q + h * p / np.diag(precision)
            p = p - h / 2 * potential.grad(q)
        before = potential.value(expected) + 0.5 * p0 @ np.linalg.solve(precision, p0)
        after = potential.value(q) + 0.5 * p @ np.linalg.solve(precision, p)
        if after - before <= rng.standard_exponential():
            expected = q
    np.testing.assert_allclose(theta, expected, rtol=1e-10)


def energy_errors(flow, energy, theta, momentum):
    """Root mean square energy errors over a unit of time, at two step sizes."""
    before = energy(theta, momentum)
    return [
        np.sqrt(np.mean((energy(*flow(theta, momentum, 1 / leaps, leaps)) - before) ** 2))
        for leaps in (20, 40)
    ]


def points(target, n=200):
    rng = generator(4)
    return target.start(rng, (n,)), rng.standard_normal((n, 2))


def test_leapfrog_conserves_energy_to_second_order_and_can_be_reversed():
    target = Quartic()
    potential = ExtendedPotential(target, False)
    theta, momentum = points(target)
    inverse = Dense(MIXED)

    def flow(theta, momentum, h, leaps):
        start = theta, momentum, potential.grad(theta)
        *_, end = leapfrog(potential, *start, h, leaps, inverse.apply)
        return end[:2]

    def energy(theta, momentum):
        return target.value(theta) + 0.5 * (momentum * inverse.apply(momentum)).sum(-1)

    coarse, fine = energy_errors(flow, energy, theta, momentum)
    assert 3.5 < coarse / fine < 4.5
    end, p = flow(theta, momentum, 0.1, 10)
    back, p = flow(end, -p, 0.1, 10)
    np.testing.assert_allclose(back, theta, rtol=0, atol=1e-10)
    np.testing.assert_allclose(-p, momentum, rtol=0, atol=1e-10)


class Witness(NamedTuple):
    inverse: np.ndarray
    theta: Any = None
    momentum: Any = None


class Watched(FixedMass):
    """A mass that keeps what it is given."""

    def init(self, theta):
        return Witness(np.ones(2))

    def update(self, rng, state, theta, momentum):
        return Witness(state.inverse, theta, momentum)


@pytest.mark.parametrize("target", [Quartic(), Orthant()])
def test_mass_learns_from_the_kept_state(target):
    sampler = HMC(0.8, 2, Watched((1.0, 1.0)))
    start = target.start(generator(0), (50,))
    rng = generator(1)
    state = sampler.step(rng, sampler.init(rng, start), target)
    rng = generator(1)
    if target.positive:
        rng.random(start.shape)
    drawn = rng.standard_normal(start.shape)
    taken = state.accepted == 1
    assert 5 < taken.sum() < 45
    seen = state.mass
    np.testing.assert_array_equal(seen.theta, state.theta)
    np.testing.assert_array_equal(seen.momentum[~taken], drawn[~taken])
    np.testing.assert_array_equal(state.theta[~taken], start[~taken])
    assert (seen.momentum[taken] != drawn[taken]).all()


@pytest.mark.parametrize(
    "target",
    [Crossed(), *(pytest.param(x, marks=pytest.mark.slow) for x in (Curved(), CurvedOrthant()))],
    ids=lambda t: type(t).__name__,
)
def test_rhmc_leaves_its_law(target):
    sampler, n = RHMC(0.4, 2, 5), 30_000
    assert target.p_value(exact_step(target, sampler, n=n)) > P_LEAST

    def undetermined(potential, theta):
        return wrong_metric(potential.metric(theta), log_det=lambda right: 0.0)

    wrong = Wrong(target, metric=undetermined)
    assert target.p_value(exact_step(wrong, sampler, n=n)) < P_LEAST


@pytest.mark.slow
def test_rhmc_needs_enough_fixed_points():
    # Six do at a step so large that a third of the proposals is rejected.
    target = Crossed()
    assert target.p_value(exact_step(target, RHMC(0.8, 3, 6))) > P_LEAST
    assert target.p_value(exact_step(target, RHMC(0.4, 3, 1))) < P_LEAST
    target = Curved()
    assert target.p_value(exact_step(target, RHMC(0.8, 2, 2), n=50_000)) < P_LEAST


@pytest.mark.parametrize(
    "target",
    [pytest.param(Curved(), marks=pytest.mark.slow), Crossed()],
    ids=lambda t: type(t).__name__,
)
def test_generalised_leapfrog_reverses_preserves_volume_and_conserves_energy(target):
    potential = ExtendedPotential(target, False)
    theta, momentum = points(target)

    def flow(theta, momentum, h, leaps, fixed_points=30):
        sampler = RHMC(h, leaps, fixed_points)
        return sampler.flow(potential, potential.metric(theta), theta, momentum, h)

    def error(h, fixed_points):
        end, p = flow(theta, momentum, h, 1, fixed_points)
        return np.median(np.abs(flow(end, -p, h, 1, fixed_points)[0] - theta))

    assert error(0.1, 30) < 1e-14
    # The residue of n iterations is of the order of eps^(n + 1), or better.
    assert error(0.05, 1) < error(0.1, 1) / 2**1.8
    assert error(0.05, 4) < error(0.1, 4) / 2**4.8
    assert error(0.1, 4) < 1e-5 < error(0.1, 1)

    def energy(theta, momentum):
        return hmc._energy(potential, potential.metric(theta), theta, momentum)

    coarse, fine = energy_errors(flow, energy, theta, momentum)
    assert 3.5 < coarse / fine < 4.6

    point = np.concatenate([theta, momentum], -1)[:20]
    jacobian = central(lambda x: np.concatenate(flow(*np.split(x, 2, -1), 0.1, 2), -1), point)
    np.testing.assert_allclose(np.linalg.det(jacobian), 1, rtol=1e-7)


def test_rhmc_with_a_constant_metric_is_hmc_with_that_mass():
    weights = np.array([0.5, 2.0, 1.0])
    target = Wrong(space(), metric=lambda right, theta: Diagonal(weights))
    start = target.start(generator(0), (50,))
    riemannian = step_many(target, RHMC(0.3, 3, 1), start, steps=4)
    plain = step_many(target, HMC(0.3, 3, FixedMass(1 / weights)), start, steps=4)
    np.testing.assert_allclose(riemannian, plain, rtol=1e-9, atol=1e-12)


class Box(Quartic):
    """Uniform on the square of side two: U is infinite, or not a number, outside."""

    def __init__(self, outside):
        super().__init__()
        self.outside = outside

    def grad(self, theta):
        return np.where(theta > 1, self.outside, np.where(theta < -1, -self.outside, 0))

    def value(self, theta):
        return np.where((np.abs(theta) <= 1).all(-1), 0.0, self.outside)

    def metric(self, theta):
        return Diagonal(np.ones_like(theta), np.zeros((*theta.shape, 2)))


@pytest.mark.parametrize("outside", [np.inf, np.nan, -np.inf])
@pytest.mark.parametrize("sampler", [HMC(0.7, 1), HMC(0.3, 4), RHMC(0.3, 4, 1)])
def test_proposals_without_a_finite_energy_are_rejected(sampler, outside):
    start = 2 * generator(0).random((CHAINS, 2)) - 1
    theta = step_many(Box(outside), sampler, start)
    assert 0.1 < (theta == start).all(-1).mean() < 0.9
    for column in theta.T:
        assert stats.kstest(column, stats.uniform(-1, 2).cdf).pvalue > P_LEAST


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("target", "sampler"),
    [
        *((Quartic(), kind) for kind in (HMC(2.0, 20), HMCBFGS(3.0, 20))),
        *((Quartic(), QNHMC(2.0, 20, memory)) for memory in (None, 2)),
        *((target, RHMC(5.0, 10, 6)) for target in (Curved(), Crossed())),
    ],
)
def test_trajectories_that_diverge_are_rejected_without_a_warning(target, sampler, dtype):
    start = target.start(generator(0), (1000,), dtype)
    rng = generator(1)
    state = sampler.init(rng, start)
    for _ in range(3):
        state = sampler.step(rng, state, target)
    assert state.theta.dtype == dtype
    assert state.accepted.mean() / 3 < 0.1
    assert np.isfinite(state.theta).all()
    np.testing.assert_array_equal(state.theta[state.accepted == 0], start[state.accepted == 0])


def test_a_start_without_a_finite_energy_is_left():
    class FlatBox(Box):
        def grad(self, theta):
            return 0 * theta

    for outside in (np.inf, np.nan):
        theta = step_many(FlatBox(outside), HMC(0.7, 1), np.full((10, 2), 1.5), steps=50)
        assert (np.abs(theta) < 1).all()
