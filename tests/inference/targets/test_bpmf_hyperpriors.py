"""Hyperpriors of matrix factorisation: derivatives, and Geweke's test of the conjugate draws."""

import math

import numpy as np
import pytest
from scipy import stats

from alphamf.errors import AlphaMFError
from alphamf.inference.checks import P_LEAST
from alphamf.inference.random import generator
from alphamf.inference.samplers.hmc import HMC
from alphamf.inference.targets import bpmf
from alphamf.inference.targets.bpmf import BPMF, HyperBPMF
from tests.inference.targets import test_bpmf

RANK, CHAINS = 2, 3000
WIDE = {"variance_w": math.inf, "variance_h": math.inf, "variance_x": 0.5}


def model(batch=None, dtype=np.float64, **settings):
    return HyperBPMF(test_bpmf.model(batch, dtype, RANK, WIDE), **settings)


def test_value_is_the_density_of_ratings_and_rows():
    target = model()
    theta = 10 * target.start(generator(1))
    potential = target.draw(generator(2), theta)
    total = target.target.draw(None, theta).value(theta)
    for name, rows in zip("wh", target.target.unpack(theta), strict=True):
        mean, precision = (target.latents[f"{what}_{name}"] for what in ("mean", "precision"))
        law = stats.multivariate_normal(mean, np.linalg.inv(precision))
        total += (law.logpdf(mean) - law.logpdf(rows)).sum()
    assert potential.value(theta) == pytest.approx(total)


def prior_draws(rng, target, n):
    """Return mu, Lambda of n draws from the hyperprior, by scipy."""
    precision = stats.wishart(target.degrees, np.eye(RANK)).rvs(n, random_state=rng)
    noise = rng.standard_normal((n, RANK))
    root = np.linalg.cholesky(np.linalg.inv(target.beta * precision))
    return (root @ noise[..., None])[..., 0], precision


def moved(target, seed=0):
    """Draw mu, Lambda and the rows of W and H from the priors; return mu, Lambda drawn anew."""
    rng = np.random.default_rng(seed)
    theta = np.empty((CHAINS, target.size))
    for rows in target.target.unpack(theta):
        mean, precision = prior_draws(rng, target, CHAINS)
        root = np.linalg.cholesky(np.linalg.inv(precision))
        noise = rng.standard_normal(rows.shape)
        rows[...] = mean[:, None] + noise @ np.swapaxes(root, -1, -2)
    target.draw(generator(seed), theta)
    return target.latents


def least_p(target, name):
    latents = moved(target)
    mean, precision = prior_draws(np.random.default_rng(9), target, CHAINS)
    pairs = [(latents[f"mean_{name}"][:, 0], mean[:, 0])]
    pairs += [(latents[f"precision_{name}"][:, i, j], precision[:, i, j]) for i, j in
              ((0, 0), (1, 1), (0, 1))]  # fmt: skip
    # How far mu and Lambda belong together.
    both = [np.einsum("ni,nij,nj->n", m, p, m) for m, p in (
        (latents[f"mean_{name}"], latents[f"precision_{name}"]), (mean, precision))]  # fmt: skip
    return min(stats.ks_2samp(*pair).pvalue for pair in [*pairs, both])


@pytest.mark.parametrize("name", ["w", "h"])
@pytest.mark.parametrize("settings", [{}, {"beta": 0.7, "degrees": 3.5}])
def test_draws_afresh_keep_the_joint_law(name, settings):
    assert least_p(model(**settings), name) > P_LEAST


def wrong(change):
    """Return the source of the conjugate draw with a mistake, compiled."""
    import inspect
    import textwrap

    source = textwrap.dedent(inspect.getsource(HyperBPMF._conjugate))
    assert change[0] in source
    space = dict(vars(bpmf))
    exec("from __future__ import annotations\n" + source.replace(*change), space)
    return space["_conjugate"]


@pytest.mark.parametrize(
    "change",
    [
        ("self.degrees + count", "self.degrees"),
        ("self.degrees + count", "self.degrees + count - 1"),
        ("+ shrunk * np.outer(mean, mean)", ""),
        ("noise / np.sqrt(total)", "0 * noise"),
        ("count * mean / total", "mean"),
        ("np.eye(rank) + ", ""),
    ],
)
def test_wrong_draws_are_seen(change, monkeypatch):
    monkeypatch.setattr(HyperBPMF, "_conjugate", wrong(change))
    assert min(least_p(model(), name) for name in "wh") < P_LEAST


def test_hmc_moves_with_the_latents_that_the_draw_has_made():
    target = model()
    theta = target.start(generator(0), (50,))
    sampler = HMC(0.05, leaps=3)
    state = sampler.step(generator(1), sampler.init(None, theta), target)
    assert state.accepted.mean() > 0.8
    assert target.latents["mean_w"].shape == (50, RANK)


@pytest.mark.parametrize(
    ("settings", "text"),
    [({"beta": 0.0}, "beta must"), ({"degrees": 1.0}, "degrees must be more than 1")],
)
def test_refuses_numbers_out_of_range(settings, text):
    with pytest.raises(AlphaMFError, match=text):
        model(**settings)
    proper = BPMF(np.zeros(1, int), np.zeros(1, int), np.ones(1), shape=(1, 1), rank=1)
    with pytest.raises(AlphaMFError, match="variance_w and variance_h must be infinite"):
        HyperBPMF(proper)
