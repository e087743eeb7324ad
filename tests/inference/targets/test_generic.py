"""Laws of all targets: derivatives, minibatches, chains of their own and precision; one table."""

from typing import Any, NamedTuple

import numpy as np
import pytest

from alphamf.errors import AlphaMFError
from alphamf.inference.checks import Z_MOST
from alphamf.inference.metric import Dense
from alphamf.inference.random import generator
from alphamf.inference.targets.control_variates import ControlVariates
from tests.inference.targets import (
    test_bpmf,
    test_bpmf_hyperpriors,
    test_gaussian,
    test_logistic,
    test_normal_wishart,
    test_topics,
)
from tests.support import posteriors
from tests.support.differences import central, unbiased_z


class Case(NamedTuple):
    """A target of a batch and a dtype, and what else of it has theta's dtype."""

    make: Any
    batches: tuple[int | None, ...] = (None, 5)
    more: Any = lambda target, rng, theta: ()


def corrected(batch=None, dtype=np.float64):
    return ControlVariates(test_logistic.model(batch, dtype), np.array([0.5, -0.5, 0.2]))


def of_normal_wishart(target, rng, theta):
    return (
        posteriors.normal_wishart_draws(target, rng, theta.shape[:-1]),
        target.mean,
        target.variance,
    )


CASES = {
    "gaussian": Case(test_gaussian.model),
    "logistic": Case(
        test_logistic.model, more=lambda target, _, theta: [target.predict(theta, target.features)]
    ),
    "normal-wishart": Case(test_normal_wishart.model, more=of_normal_wishart),
    "bpmf": Case(
        test_bpmf.model,
        more=lambda target, _, theta: [target.predict(theta, target.users, target.items)],
    ),
    "bpmf with hyperpriors": Case(test_bpmf_hyperpriors.model),
    "topics": Case(test_topics.model, (None, 2), lambda target, rng, _: [target.dictionary(rng)]),
    "control variates": Case(corrected, (5,)),
}
EVERY = [(name, batch) for name, case in CASES.items() for batch in case.batches]
OWN = "gaussian", "logistic", "normal-wishart", "bpmf"
"""Targets whose chains have minibatches of their own, drawn with replacement."""


def drawn(name, batch, chains, dtype=np.float64):
    """Return a target, a theta whose scales are not one, and a potential."""
    target, rng = CASES[name].make(batch=batch, dtype=dtype), generator(1)
    theta = target.start(rng, chains)
    assert theta.shape == (*chains, target.size)
    theta += dtype(0.5) * rng.standard_normal(theta.shape, dtype=dtype)
    return target, theta, target.draw(rng, theta)


@pytest.mark.parametrize(("name", "batch"), EVERY)
@pytest.mark.parametrize("chains", [(), (4,), (2, 3)])
def test_derivatives_are_those_of_the_value(name, batch, chains):
    _, theta, potential = drawn(name, batch, chains)
    close = {"rtol": 1e-5, "atol": 1e-5}
    assert potential.value(theta).shape == chains
    np.testing.assert_allclose(potential.grad(theta), central(potential.value, theta), **close)
    if hasattr(potential, "hessian_diagonal"):
        second = np.diagonal(central(potential.grad, theta), axis1=-2, axis2=-1)
        diagonal = np.broadcast_to(potential.hessian_diagonal(theta), theta.shape)
        np.testing.assert_allclose(diagonal, second, **close)
    if hasattr(potential, "metric"):
        metric = potential.metric(theta)
        slope = central(lambda t: np.broadcast_to(potential.metric(t).g, metric.g.shape), theta)
        slope = np.moveaxis(slope, -1, -3 if isinstance(metric, Dense) else -2)
        if metric.slope is None:
            np.testing.assert_array_equal(slope, 0)
        else:
            np.testing.assert_allclose(metric.slope, slope, **close)


@pytest.mark.parametrize(("name", "batch"), EVERY)
@pytest.mark.parametrize("chains", [(), (2,)])
def test_float32_stays_float32(name, batch, chains):
    target, theta, potential = drawn(name, batch, chains, np.float32)
    arrays = [theta, potential.value(theta), potential.grad(theta)]
    if hasattr(potential, "hessian_diagonal"):
        arrays.append(potential.hessian_diagonal(theta))
    if hasattr(potential, "metric"):
        arrays += [each for each in potential.metric(theta) if each is not None]
    arrays += CASES[name].more(target, generator(2), theta)
    assert all(each.dtype == np.float32 for each in arrays)


@pytest.mark.parametrize("name", OWN)
def test_minibatch_is_unbiased_and_chains_have_their_own(name):
    target, theta, _ = drawn(name, 4, ())
    whole = CASES[name].make().draw(generator(0), theta)
    assert unbiased_z(target, whole, theta, 1000 if name == "bpmf" else 50_000) < Z_MOST
    many = np.tile(theta, (10, 1))
    assert len(np.unique(target.draw(generator(3), many).grad(many), axis=0)) == 10


@pytest.mark.parametrize("name", OWN)
def test_chains_of_all_data_are_each_alone(name):
    _, theta, potential = drawn(name, None, (3,))
    for what in (potential.value, potential.grad):
        for chain in range(3):
            np.testing.assert_allclose(what(theta)[chain], what(theta[chain]), rtol=1e-12)


@pytest.mark.parametrize("name", OWN)
def test_an_empty_minibatch_is_refused(name):
    with pytest.raises(AlphaMFError, match="batch must be at least 1, not 0"):
        CASES[name].make(batch=0)
