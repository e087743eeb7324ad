"""Kernel Stein discrepancy and thinning: Stein's identity, the kernel, and the bias they see."""

import re

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss

from alphamf.errors import AlphaMFError
from alphamf.inference import SGLD, sample
from alphamf.inference import stein as module
from alphamf.inference.stein import stein_discrepancy, stein_thin
from tests.support.places import ROOT
from tests.support.posteriors import Quartic, gaussian_draws

MEAN, COVARIANCE = np.array([1.0, -0.5]), np.array([[1.0, 0.6], [0.6, 0.8]])


def score(x):
    return -np.linalg.solve(COVARIANCE, (x - MEAN).T).T


def pair(x, y, gamma, s=score):
    """Return the Stein kernel of two positions, from differences of the base kernel."""
    eye = 1e-4 * np.eye(len(x))

    def base(x, y):
        return (1 + (x - y) @ np.linalg.solve(gamma, x - y)) ** -0.5

    by_x = np.array([base(x + e, y) - base(x - e, y) for e in eye]) / 2e-4
    by_y = np.array([base(x, y + e) - base(x, y - e) for e in eye]) / 2e-4
    signs = [(1, 1), (1, -1), (-1, 1), (-1, -1)]
    mixed = [[sum(k * m * base(x + k * a, y + m * b) for k, m in signs) for b in eye] for a in eye]
    sx, sy = s(x[None])[0], s(y[None])[0]
    # The kernel of vector fields is Gamma times the base kernel.
    crossed = by_x @ gamma @ sy + by_y @ gamma @ sx
    return np.trace(gamma @ mixed) / 4e-8 + crossed + base(x, y) * sx @ gamma @ sy


def test_is_the_kernel_of_the_langevin_operator():
    x = np.random.default_rng(0).standard_normal((4, 2))
    gamma = np.array([[2.0, -0.3], [-0.3, 0.5]])
    expected = sum(pair(one, two, gamma) for one in x for two in x)
    assert (4 * stein_discrepancy(x, score(x), gamma)) ** 2 == pytest.approx(expected, rel=1e-5)


def test_mean_of_the_kernel_under_the_target_is_zero():
    """By a Gauss-Hermite rule of the Gaussian."""
    nodes, w = hermegauss(40)
    grid = np.stack([each.ravel() for each in np.meshgrid(nodes, nodes)], -1)
    x, weights = MEAN + grid @ np.linalg.cholesky(COVARIANCE).T, np.outer(w, w).ravel()
    z, s = module._whitened(x, score(x), COVARIANCE)
    means = module._kernel(z[:5], s[:5], z, s) @ weights / w.sum() ** 2
    np.testing.assert_allclose(means, 0, atol=1e-3 * np.abs(s[:5]).max() ** 2)
    wrong = module._kernel(z[:5], 1.2 * s[:5], z, 1.2 * s) @ weights / w.sum() ** 2
    assert (np.abs(wrong) > 10 * np.abs(means)).all()


def test_does_not_depend_on_the_coordinates():
    x = gaussian_draws(MEAN, COVARIANCE, n=300)
    turn = np.array([[3.0, 1.0], [0.0, 0.2]])
    moved = stein_discrepancy(x @ turn.T, np.linalg.solve(turn.T, score(x).T).T)
    assert moved == pytest.approx(stein_discrepancy(x, score(x)), rel=1e-9)


def test_does_not_care_how_many_rows_are_in_memory(monkeypatch):
    x = gaussian_draws(MEAN, COVARIANCE, n=101)
    whole = stein_discrepancy(x, score(x))
    monkeypatch.setattr(module, "ROWS", 7)
    assert stein_discrepancy(x, score(x)) == pytest.approx(whole, rel=1e-12)


def test_thinning_makes_each_choice_the_best():
    x = gaussian_draws(MEAN, COVARIANCE, n=40)
    chosen = stein_thin(x, score(x), 6, COVARIANCE)
    for k in range(1, 7):
        found = [
            stein_discrepancy(x[[*chosen[: k - 1], j]], score(x[[*chosen[: k - 1], j]]), COVARIANCE)
            for j in range(40)
        ]
        assert found[chosen[k - 1]] == pytest.approx(min(found), rel=1e-9)


def test_thinned_samples_are_nearer_than_evenly_spaced_ones_and_drop_the_burn_in():
    target = Quartic()
    run = sample(target, np.full((1, 2), 4.0), sampler=SGLD(0.03), steps=4000, burn_in=0)
    draws = run.draws[:, 0]
    scores = -target.grad(draws)
    gamma = np.eye(2) / 2
    chosen = stein_thin(draws, scores, 50, gamma)
    even = np.arange(0, 4000, 80)
    thinned, spaced = (stein_discrepancy(draws[k], scores[k], gamma) for k in (chosen, even))
    assert thinned < 0.4 * spaced
    assert chosen.min() > 3


def test_block_of_the_page_runs(capsys):
    page = (ROOT / "docs/samplers.md").read_text(encoding="utf-8")
    (block,) = [
        each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "stein" in each
    ]
    exec(block, {})
    large, small = capsys.readouterr().out.splitlines()
    assert float(large.split()[1]) > 3 * float(small.split()[1])


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"scores": np.zeros((3, 1))}, r"same shape \(n, D\), not \(3, 2\) and \(3, 1\)"),
        ({"draws": np.full((3, 2), np.nan)}, "must be finite"),
        ({"covariance": np.zeros((2, 2))}, "covariance must be positive definite"),
        ({"count": 0}, "count must be at least 1, not 0"),
    ],
)
def test_refuses_what_is_no_sample(given, sentence):
    given = {"draws": np.zeros((3, 2)), "scores": np.zeros((3, 2)), "count": 1, **given}
    given.setdefault("covariance", np.eye(2))
    with pytest.raises(AlphaMFError, match=sentence):
        stein_thin(**given)
