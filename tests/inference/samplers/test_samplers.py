"""Every sampler by its name: on one posterior through the one loop, and from a checkpoint on."""

from math import inf

import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

from alphamf.errors import AlphaMFError
from alphamf.inference.chain import run
from alphamf.inference.checks import check
from alphamf.inference.samplers.registry import SAMPLERS
from alphamf.inference.samplers.sghmc import SGHMC
from tests.support.momenta import sghmc_law
from tests.support.sampler_cases import (
    CASES,
    DISCRETISED,
    EXACT,
    FACTORS,
    NEAR,
    WRONG,
    made,
    posterior,
)


def law(name, target, h):
    """Return the covariance that a sampler leaves on a target; its mean is the posterior's."""
    precision, eye = target.precision, np.eye(target.size)
    if name in ("sgld", "sgrrmld"):  # theta is the coarsest chain
        return solve_discrete_lyapunov(eye - h * precision, 2 * h * eye)
    if name == "sgrrld":  # theta is the fine chain
        return law("sgld", target, h / 2)
    if name == "rsgld":
        return target.covariance / (1 - h / 2)
    if name == "rsgld-diagonal":
        inverse = np.diag(1 / precision.diagonal())
        return solve_discrete_lyapunov(eye - h * inverse @ precision, 2 * h * inverse)
    if name in ("sghmc", "sghmc-splitting", "sghmc-baoab", "sgrrhmc"):
        integrator = name.split("-")[1] if "-" in name else "euler"
        step = h / 2 if name == "sgrrhmc" else h
        joint = sghmc_law(SGHMC(step, integrator=integrator), step, precision, eye)
        return joint[: target.size, : target.size]
    return target.covariance


LONG = {"qnhmc", "qnhmc-lbfgs"} | {name for name in CASES if "-em" in name}
"""Samplers that learn for 300 steps."""


SECOND = {"sghmc-splitting", "sghmc-baoab", "sg-nphmc", "sgr-nphmc"}
"""Samplers whose bias is of second order in the step size."""


def checked(name, **settings):
    """Return the report on a sampler."""
    target = posterior()
    settings = {"steps": 800 if name in LONG else 200, "chains": 1000, **settings}
    order = inf if name in EXACT else 2 if name in SECOND else 1
    return check(made(name, target)[0], target, order=order, **settings)


def test_every_name_is_tested():
    assert set(CASES) | FACTORS == set(SAMPLERS)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(EXACT | NEAR))
def test_passes_the_check(name):
    report = checked(name)
    assert report.passed, report


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(DISCRETISED))
def test_passes_the_check_with_its_own_law_and_not_with_another(name):
    target = posterior()
    mean, covariance = target.mean, law(name, target, made(name, target)[1])
    report = checked(name, law=(mean, covariance))
    assert report.passed, report
    # The test sees a standard deviation that is 10 % wrong.
    assert not checked(name, law=(mean, 1.2 * covariance)).findings[-1].passed


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(WRONG))
def test_wrong_samplers_are_wrong(name):
    report = checked(name)
    assert not report.passed


class Plain:
    """A potential of which only the gradient is known."""

    size, positive = 2, False

    def __init__(self):
        self.latents = {}

    def start(self, rng, chains=()):
        return np.ones((*chains, 2))

    def draw(self, rng, theta):
        return self

    def grad(self, theta):
        return theta


METHODS = "metric", "parts"
MISSING = [(name, each) for name in SAMPLERS for each in METHODS if each in SAMPLERS[name]().needs]


@pytest.mark.parametrize(("name", "method"), MISSING)
def test_a_target_without_the_method_that_a_sampler_needs_is_refused(name, method):
    with pytest.raises(AlphaMFError, match=rf"{method}\(theta\), which Plain does not have"):
        list(run(Plain(), SAMPLERS[name](), steps=1, seed=0))


@pytest.mark.parametrize("name", sorted(set(SAMPLERS) - {"em"}))
@pytest.mark.parametrize("size", [-0.1, 0.0, float("nan")])
def test_step_size_must_be_positive(name, size):
    target = posterior()
    with pytest.raises(AlphaMFError, match=f"step_size must be a positive number, not {size}"):
        list(run(target, SAMPLERS[name](size), steps=1, seed=0))
