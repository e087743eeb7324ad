"""Multilevel Richardson-Romberg: its weights, the law of its pairs, and the order of the bias."""

import numpy as np
import pytest

from alphamf.inference.chain import run
from alphamf.inference.checks import CHAINS, Z_MOST
from alphamf.inference.random import generator, noise
from alphamf.inference.records import Extrapolated
from alphamf.inference.samplers import richardson
from alphamf.inference.samplers.richardson import SGRRMLD, totals, weights
from alphamf.inference.targets.gaussian import LinearGaussian
from tests.support.posteriors import gaussian_draws, gaussian_z

PRECISION = 2.0


def line():
    """Return a posterior N(0, 1 / 2)."""
    return LinearGaussian(np.eye(1), np.zeros(1), 1.0)


def variance(h):
    """Return the variance of SGLD at h."""
    return 1 / (PRECISION * (1 - h * PRECISION / 2))


def estimate(h, levels):
    """Return the variance that the exact laws of all levels add up to."""
    return sum(w * variance(h / 2**r) for r, w in enumerate(weights(levels)))


@pytest.mark.parametrize("levels", range(2, richardson.MOST + 1))
def test_weights_take_away_the_powers_of_the_step_size(levels):
    found, sizes = np.array(weights(levels)), 2.0 ** np.arange(levels)
    assert found.sum() == pytest.approx(1)
    for power in range(1, levels):
        assert found @ sizes**-power == pytest.approx(0, abs=1e-12)
    assert abs(found @ sizes**-levels) > 1e-9
    np.testing.assert_allclose(totals(levels), np.cumsum(found[::-1])[::-1])


@pytest.mark.parametrize("levels", [2, 3, 4])
def test_order_of_the_bias_is_the_number_of_levels(levels):
    biases = [abs(estimate(h, levels) - 1 / PRECISION) for h in (0.04, 0.02)]
    assert np.log2(biases[0] / biases[1]) == pytest.approx(levels, abs=0.2)


def test_two_levels_have_the_weights_of_sgrrld():
    assert totals(2) == (1.0, 2.0)
    state = SGRRMLD(0.1, 2).init(None, np.zeros(1))
    state = state._replace(
        theta=np.array([5.0]), middle=np.array([[1.0]]), fine=np.array([[3.0]])
    )._replace(coarse=np.array([[7.0]]))
    assert sum(w * each for w, each in state.terms) == 5 + 1 + 3 - 2 * 7


def pair_law(h):
    """Return the covariance of a pair: fine after its first and second move, and coarse."""
    half, whole = 1 - h * PRECISION / 2, 1 - h * PRECISION
    fine, coarse = variance(h / 2), variance(h)
    both = h * (1 + half) / (1 - half**2 * whole)
    middle_coarse = half * whole * both + h
    return np.array(
        [
            [fine, half * fine, middle_coarse],
            [half * fine, fine, both],
            [middle_coarse, both, coarse],
        ]
    )


def after_a_step(h, levels=3):
    sampler = SGRRMLD(h, levels)
    state = sampler.init(None, np.zeros((CHAINS, 1)))
    fine, coarse = np.empty((2, levels - 1, CHAINS, 1))
    for level in range(levels - 1):
        draws = gaussian_draws(np.zeros(3), pair_law(h / 2**level), seed=level)
        fine[level], coarse[level] = draws[:, 1:2], draws[:, 2:]
    state = sampler.step(generator(5), state._replace(fine=fine, coarse=coarse), line())
    return [
        gaussian_z(
            np.concatenate([state.middle[level], state.fine[level], state.coarse[level]], -1),
            np.zeros(3),
            pair_law(h / 2**level),
        )
        for level in range(levels - 1)
    ]


def test_pairs_keep_their_joint_law(monkeypatch):
    assert max(after_a_step(0.3)) < Z_MOST

    def independent(rng, theta):
        return noise(rng, theta), noise(rng, theta), noise(rng, theta)

    monkeypatch.setattr(richardson, "draw_increments", independent)
    assert min(after_a_step(0.3)) > Z_MOST


@pytest.mark.parametrize("levels", [2, 3])
def test_estimate_has_the_mean_of_its_laws(levels):
    """At a step where the coarse chain is 43 % off, and two levels 13 %."""
    h, chains = 0.3, 4000
    values = []
    for seed in range(8):
        record = Extrapolated(lambda theta, target: theta**2, burn_in=40)
        for _ in run(
            line(), SGRRMLD(h, levels), steps=140, seed=seed, chains=(chains,), record=record
        ):
            pass
        values.append(record.mean[0])
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    assert abs(np.mean(values) - estimate(h, levels)) < Z_MOST * error
    assert abs(np.mean(values) - estimate(h, 5 - levels)) > Z_MOST * error
