"""Richardson-Romberg's experiments at the smallest sizes, and the laws they are compared with."""

import math

import numpy as np
import pytest

from alphamf.inference.checks import Z_MOST
from alphamf.research.experiments.base import JobRecord
from alphamf.research.experiments.richardson import factors, gaussian, rates
from alphamf.research.experiments.richardson.gaussian import (
    PRIOR_VARIANCE,
    ErrorMoments,
    law,
    model,
    sampler_of,
)
from tests.support.posteriors import gaussian_draws, step_many

SLOPES = [1e-3, 7e-4, 5e-4, 3.5e-4, 2.5e-4]


def exact(target):
    return PRIOR_VARIANCE * float(target.covariance[0, 0])


@pytest.mark.slow
@pytest.mark.parametrize("method", ["SGLD", "SGHMC", "SGHMC-s"])
def test_laws_are_those_of_the_samplers(method):
    # From the posterior, many steps at a large step size, with minibatches.
    target = model(1)
    gamma = 2e-3 if method == "SGLD" else 3e-2
    sampler = sampler_of(method, gamma)
    n = 6000
    start = gaussian_draws(target.mean, target.covariance, n=n, seed=1)
    theta = step_many(target, sampler, start, steps=60 if method != "SGLD" else 12)
    variance = PRIOR_VARIANCE * ((theta - target.mean) ** 2).mean()
    wanted = law(target, sampler)
    assert wanted > 2 * exact(target)
    assert abs(variance / wanted - 1) * math.sqrt(n / 2) < Z_MOST


def test_law_without_minibatches_is_the_known_one():
    target = model(1, batch=None)
    a = 1 / exact(target)
    assert law(target, sampler_of("SGLD", 1e-3)) == pytest.approx(1 / (a * (1 - 5e-4 * a)))
    # The splitting integrator's law of theta is right to second order.
    errors = [law(target, sampler_of("SGHMC-s", h)) * a - 1 for h in (0.02, 0.01)]
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.15)


def test_slopes_by_the_exact_laws():
    target = model(1)

    def of(method, steps):
        laws = [law(target, sampler_of(method, gamma)) for gamma in steps]
        return gaussian.slope([(g, v - exact(target)) for g, v in zip(steps, laws, strict=True)])

    assert of("SGLD", SLOPES) == pytest.approx(1, abs=0.2)
    assert of("SGRRLD", SLOPES) == pytest.approx(2, abs=0.3)
    # Minibatches heat both SGHMC's integrators in proportion to the step.
    leaps = [1e-2, 3e-3, 1e-3]
    assert of("SGHMC", leaps) == pytest.approx(1, abs=0.1)
    assert of("SGHMC-s", leaps) == pytest.approx(1, abs=0.1)
    assert of("SGRRHMC", leaps) == pytest.approx(2, abs=0.4)


@pytest.mark.parametrize("method", ["SGHMC", "SGHMC-s", "SGRRHMC"])
def test_theta_has_the_unit_of_its_prior_and_time_has_the_papers(method):
    sampler = sampler_of(method, 0.01)
    assert sampler.step_size * gaussian.SCALE == pytest.approx(0.01)
    assert sampler.step_size * sampler.friction == pytest.approx(0.01 * gaussian.FRICTION)


def test_moments_are_those_of_each_chain():
    class State:
        def __init__(self, step, *places):
            self.step = step
            self.theta, self.middle, self.coarse = places

    target = model(2)
    rng = np.random.default_rng(0)
    places = target.mean + 0.1 * rng.standard_normal((9, 3, 4, 2))
    record = ErrorMoments(target, 1, 9)
    assert record.steps == [1, 2, 4, 8]
    for step, place in enumerate(places, 1):
        record.add(State(step, *place), target)
    assert len(record.covariances) == 4
    for count, got in zip(record.steps, record.covariances, strict=True):
        fine, middle, coarse = (np.moveaxis(places[1 : 1 + count, k], 1, 0) for k in range(3))
        first = (fine + middle - coarse).mean(1)
        second = sum(
            sign * np.einsum("cti,ctj->cij", x, x) / count
            for sign, x in ((1, fine), (1, middle), (-1, coarse))
        )
        wanted = second - first[:, :, None] * first[:, None, :]
        np.testing.assert_allclose(got, PRIOR_VARIANCE * wanted, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("method", "order", "rate"), [("SGLD", 1, -2 / 3), ("SGRRLD", 2, -4 / 5)])
def test_rates_are_those_of_the_theorem_where_errors_are(method, order, rate):
    """A bias of gamma^order and a variance of 1 / (K gamma): the least MSE falls as printed."""
    kept = [10**k for k in range(3, 9)]
    records = [
        JobRecord(
            {"figure": "step", "method": name, "gamma": gamma},
            {"kept": kept, "mse": [gamma ** (2 * order) + 1 / (k * gamma) for k in kept]},
        )
        for gamma in np.geomspace(1e-4, 1, 400)
        for name in (method, "another")
    ]
    found = gaussian.slope(gaussian.lowest_errors(records, method))
    assert found == pytest.approx(rate, abs=2e-3)
    printed, _, below = gaussian.PAPER["rate", method].partition("/")
    assert float(printed) / float(below) == pytest.approx(rate)


def test_stopwatch_has_the_chains_side_by_side():
    watch = factors.TimedTarget(model(1))
    # Noise 1 s, the fine chain's moves 2 and 3 s, the coarse one's 4 s.
    watch.times = [1.0, 3.0, 6.0]
    assert watch.parallel_time(0.0, 10.0) == 1 + 5
    watch.times = [1.0, 2.0, 3.0]
    assert watch.parallel_time(0.0, 10.0) == 1 + 7
    watch.times = [1.0]
    assert watch.parallel_time(0.0, 10.0) == 10


@pytest.mark.slow
def test_ratings_are_learnt(datasets):
    records = []
    for job in factors.jobs(False, 0):
        short = 1 if job["method"] == "SGLD" else 2
        job |= {"users": 300, "gamma": 1e-4, "steps": 160 // short, "burn_in": 40 // short}
        records.append(JobRecord(job, factors.work(job)))
    for job, numbers in records:
        assert 0.8 < numbers["rmse"] < 1.5
        parallel, serial = numbers["times"]
        assert parallel == serial if job["method"] == "SGLD" else 0.3 < parallel / serial < 1


@pytest.mark.slow
def test_figure_3_has_its_least_error_between_its_ends():
    """Too large a step has its bias, too small a one the start and a run that is too short."""
    records = [JobRecord(job, rates.work(job)) for job in rates.jobs(False, 0)]
    errors = [numbers["mse"] for job, numbers in records if job["figure"] == "mse"]
    least = min(range(len(errors)), key=lambda k: errors[k][-1])
    assert 0 < least < len(errors) - 1
    laws = [numbers["law"] for job, numbers in records if job["figure"] == "bias"]
    # By theorem 2 the law's bias is gamma^2 C, so that it falls as K^(-2 exponent).
    steps = rates.jobs(False, 0)[0]["steps"]
    assert np.log(laws[0] / laws[2]) / np.log(steps) == pytest.approx(2 * (1 / 3 - 0.2), rel=0.1)
