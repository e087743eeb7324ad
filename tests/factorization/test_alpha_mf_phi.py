"""The Metropolis moves of Phi: exact laws that they must keep, and exact laws that they must reach.

Geweke's joint test: Phi from its prior, |X|^2 given Phi, then a move of Phi given |X|^2 leaves the
pair's law as it was. Functions of the pair are compared before and after, cell by cell.
"""

import numpy as np
import pytest
from scipy import stats

from alphamf.factorization.alpha_mf import FLOOR, AlphaMFTarget, Source
from alphamf.inference.random import generator

CELLS = (200, 500)


def z_score(values) -> float:
    return float(values.mean() * np.sqrt(values.size) / max(values.std(), 1e-12))


def joint_z(before, after, power, alpha) -> np.ndarray:
    """Return |z| of Phi's law after a move, and of what a move must not change in the pair's.

    The law is E exp(-t Phi) = exp(-(2t)^(alpha/2)); of the pair, exp(-t Phi - |X|^2 / c) is
    compared before and after.
    """
    before, after, power = (x.astype(np.float64) for x in (before, after, power))
    z = []
    for t in (0.05, 0.3, 1.0, 4.0):
        z.append(z_score(np.exp(-t * after) - np.exp(-((2 * t) ** (alpha / 2)))))
        for c in (0.3, 3.0):
            z.append(z_score((np.exp(-t * after) - np.exp(-t * before)) * np.exp(-power / c)))
    return np.abs(z)


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("alphas", [(0.8,), (1.0,), (1.2, 1.89), (1.0, 2.0), (1.0, 1.2, 1.89)])
def test_joint_law_is_kept(alphas, blocks):
    """Geweke's test of `draw`, in single precision, after one move and after four."""
    rng = generator(1)
    sources = [Source(alpha, 2) for alpha in alphas]
    target = AlphaMFTarget(np.ones(CELLS, np.float32), sources, blocks=blocks)
    theta = target.start(rng)
    theta[...] = rng.random(theta.shape, dtype=np.float32) + np.float32(0.3)
    before = {name: phi.copy() for name, phi in target.latents.items()}
    sigma2 = np.full(CELLS, FLOOR, np.float32)
    for s, (w, h) in enumerate(target.unpack(theta)):
        sigma2 += target.latents.get(f"phi{s}", np.float32(2)) * (w @ h) ** (2 / alphas[s])
    target.power[...] = sigma2 * rng.standard_exponential(CELLS, dtype=np.float32)
    for moves in (1, 3):
        for _ in range(moves):
            target.draw(rng, theta)
        for s, alpha in enumerate(alphas):
            if alpha < 2:
                phi = target.latents[f"phi{s}"]
                assert joint_z(before[f"phi{s}"], phi, target.power, alpha).max() < 4


def moved(power: float, levels, alphas, *, chains=40_000, moves=100):
    """Return Phi of the first source of one cell, in many chains, after many moves."""
    rng = generator(4)
    one = np.ones((1, 1))
    target = AlphaMFTarget(np.full((1, 1), power), [Source(alpha, 1, one) for alpha in alphas])
    target.start(rng, (chains,))
    theta = np.tile(np.float64(levels), (chains, 1))
    for _ in range(moves):
        target.draw(rng, theta)
    return target.latents["phi0"][:, 0, 0]


def posterior_ks(phi, weights) -> float:
    """p-value of Phi against prior times weights on an even grid of the prior's quantiles."""
    cumulative = np.append(0, np.cumsum(weights)) / weights.sum()
    edges = np.linspace(0, 1, len(weights) + 1)
    return stats.kstest(stats.levy.cdf(phi), lambda u: np.interp(u, edges, cumulative)).pvalue


@pytest.mark.parametrize("power", [0.01, 1.0, 30.0])
def test_one_source_reaches_its_posterior(power):
    """At alpha = 1 Phi has Levy's density: the posterior of one cell on a grid."""
    phi = moved(power, [0.7], [1.0])
    sigma2 = FLOOR + stats.levy.ppf((np.arange(20_000) + 0.5) / 20_000) * 0.7**2
    assert posterior_ks(phi, np.exp(-power / sigma2) / sigma2) > 1e-4
    assert posterior_ks(phi, np.ones(20_000)) < 1e-4


@pytest.mark.parametrize("chains", [(), (2,)])
def test_only_the_drawn_rows_move(chains):
    rng = generator(5)
    target = AlphaMFTarget(np.ones((7, 40)), [Source(1.0, 2), Source(1.89, 2)], blocks=3)
    theta = target.start(rng, chains) + 0.5
    blocks = set()
    for _ in range(20):
        before = {name: phi.copy() for name, phi in target.latents.items()}
        potential = target.draw(rng, theta)
        rows = np.zeros(7, bool)
        rows[potential.rows] = True
        blocks.add(tuple(rows))
        for name, phi in target.latents.items():
            changed = (phi != before[name]).any(-1)
            assert changed[..., rows].all()
            assert not changed[..., ~rows].any()
    assert len(blocks) == 3
    assert np.sum([*blocks], axis=0).tolist() == [1] * 7


def test_acceptance_counts_the_moves():
    rng = generator(6)
    target = AlphaMFTarget(np.ones((6, 40)), [Source(1.0, 2), Source(2.0, 2)], blocks=2)
    theta = target.start(rng, (3,))
    assert target.acceptance == [1.0, 1.0]
    accepted = 0
    for _ in range(10):
        before = target.latents["phi0"].copy()
        target.draw(rng, theta)
        accepted += np.count_nonzero(target.latents["phi0"] != before)
    assert target.proposed == [10 * 3 * 3 * 40, 0]
    assert target.accepted == [accepted, 0]
    assert 0 < target.acceptance[0] < 1
    assert target.acceptance[1] == 1.0


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.2, 1.99])
def test_silence_and_bangs_stay_finite(alpha):
    """Cells of no power and of 60 dB above the mean, and factors of zero, in single precision."""
    power = np.zeros((20, 30), np.float32)
    power[3, 4:8] = 1e6
    target = AlphaMFTarget(power, [Source(alpha, 2), Source(1.89, 2)])
    rng = generator(7)
    theta = target.start(rng)
    theta[::7] = 0
    for scale in (1.0, 1e-6, 1e3):
        scaled = scale * theta
        for _ in range(30):
            potential = target.draw(rng, scaled)
        arrays = [potential.grad(scaled), *potential.parts(scaled)]
        arrays += [potential.value(scaled), target.gain(scaled), *target.latents.values()]
        assert all(np.isfinite(array).all() for array in arrays)
