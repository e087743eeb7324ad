"""QNHMC and HMC-BFGS: exact laws, the bias of a C that learns, matrices written out, twins."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from alphamf.inference.checks import CHAINS, P_LEAST, Z_MOST
from alphamf.inference.metric import Dense, Diagonal
from alphamf.inference.random import generator
from alphamf.inference.samplers import hmc, lbfgs
from alphamf.inference.samplers.hmc import HMCBFGS
from alphamf.inference.samplers.masses import ConstantMass
from alphamf.inference.samplers.qnhmc import BFGS, LBFGS, QNHMC
from tests.support.bfgs import dense, dense_root, pairs
from tests.support.posteriors import MIXED, Orthant, Quartic, space, step_many
from tests.support.twins import OneSign, twin, wrong_way

MEMORIES = [None, 2]


def restless(sampler, theta, seed=5, size=2):
    """Return a state at theta whose C differs between chains, whatever theta is."""
    rng = generator(seed)
    state = sampler.init(rng, theta)
    if sampler.memory is None:
        root = rng.standard_normal((*theta.shape, size))
        b = 0.1 * np.eye(size) + root @ np.swapaxes(root, -1, -2) / size
        return state._replace(inverse=BFGS(b.astype(theta.dtype)))
    s, y = (p.astype(theta.dtype) for p in pairs(sampler.memory, theta.shape[:-1], size, seed))
    return state._replace(inverse=LBFGS(0.5 * s, y, sampler.gamma))


def one_step(target, sampler, *, dtype=np.float64, n=CHAINS):
    start = target.start(generator(0, 0), (n,), dtype)
    state = restless(sampler, start)
    return sampler.step(generator(0, 1), state, target)


@pytest.mark.parametrize("dtype", [pytest.param(np.float32, marks=pytest.mark.slow), np.float64])
@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("freeze", [None, 0])
def test_qnhmc_leaves_its_law_while_c_does_not_know_theta(memory, freeze, dtype, monkeypatch):
    target = Quartic()
    sampler = QNHMC(0.5, 4, memory=memory, freeze=freeze)
    state = one_step(target, sampler, dtype=dtype)
    assert state.theta.dtype == dtype
    assert 0.3 < state.accepted.mean() < 0.95
    assert target.p_value(state.theta) > P_LEAST
    for field in state.inverse[: 1 + (memory is not None)]:
        assert field.dtype == dtype
    monkeypatch.setattr(hmc, "metropolis", wrong_way)
    assert target.p_value(one_step(target, sampler, dtype=dtype).theta) < P_LEAST


HEAVY = np.array([[2.0, 0.9], [0.9, 0.6]])
"""An inverse mass of which C is no multiple."""


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("inverse_mass", [HEAVY, np.array([3.0, 0.4])])
def test_qnhmc_with_a_mass_leaves_its_law(memory, inverse_mass, monkeypatch):
    target = Quartic()
    sampler = QNHMC(0.5, 4, memory=memory, freeze=0, mass=ConstantMass(inverse_mass))
    state = one_step(target, sampler)
    assert 0.3 < state.accepted.mean() < 0.95
    assert target.p_value(state.theta) > P_LEAST
    # Momenta of another mass than that of the energy.
    monkeypatch.setattr(Dense, "inverse_root", lambda metric, z: 2 * z)
    monkeypatch.setattr(Diagonal, "inverse_root", lambda metric, z: 2 * z)
    assert target.p_value(one_step(target, sampler).theta) < P_LEAST


@pytest.mark.parametrize("memory", MEMORIES)
def test_c_in_the_momentum_alone_is_not_exact(memory, monkeypatch):
    # The paper's eq. 4, its naive replacement, with the test of acceptance: the map is reversible
    # and preserves volume, so it is exact as well; but its energy is not conserved.
    target, sampler = Quartic(), QNHMC(0.05, 20, memory=memory)
    assert one_step(target, sampler, n=5000).accepted.mean() > 0.95
    right = hmc.leapfrog

    def naive(potential, theta, momentum, gradient, h, leaps, velocity, force):
        return right(potential, theta, momentum, gradient, h, leaps, lambda p: p, force)

    monkeypatch.setattr(hmc, "leapfrog", naive)
    assert one_step(target, sampler, n=5000).accepted.mean() < 0.9


def test_qnhmc_leaves_a_positive_law():
    target = Orthant()
    for memory in MEMORIES:
        theta = one_step(target, QNHMC(0.6, 3, memory=memory)).theta
        assert (theta >= 0).all()
        assert target.p_value(theta) > P_LEAST

    def one_c(wrong=lambda sampler: sampler):
        start = target.start(generator(0, 0), (CHAINS,))
        sampler = QNHMC(0.6, 3)
        state = sampler.init(None, start)
        state = state._replace(inverse=BFGS(np.broadcast_to(MIXED, state.inverse.b.shape)))
        return wrong(sampler).step(generator(0, 1), state, target).theta

    assert target.p_value(one_c()) > P_LEAST
    assert target.p_value(one_c(lambda sampler: twin(sampler, OneSign))) < P_LEAST


@pytest.mark.parametrize("memory", [None, 2, 6])
@pytest.mark.parametrize("light", [np.eye(3), np.array([[1, 0.3, 0], [0.3, 2, 0], [0, 0, 0.5]])])
def test_qnhmc_is_algorithm_2_written_out(memory, light):
    """Algorithm 2 with M^-1 = `light`; the paper prints exp(E_1 - E_0)."""
    target = space()
    mass = ConstantMass(light)
    sampler = QNHMC(lambda t: 0.5 / (t + 4), 3, memory=memory, freeze=5, gamma=0.2, mass=mass)
    start = target.start(generator(1))
    steps = 8
    theta = step_many(target, sampler, start, steps=steps, seed=2)

    rng = generator(2, 1)
    potential = target.draw(None, start)
    expected, s, y = start, [], []
    for t in range(steps):
        h = 0.5 / (t + 4)
        kept = slice(0 if memory is None else max(0, len(s) - memory), None)
        c = dense(np.reshape(s[kept], (-1, 3)), np.reshape(y[kept], (-1, 3)), 0.2)
        p = p0 = Dense(light).inverse_root(rng.standard_normal(3))
        path = [expected]
        p = p - h / 2 * c @ potential.grad(expected)
        for i in range(3):
            path.append(path[-1] + h * c @ light @ p)
            p = p - (h / 2 if i == 2 else h) * c @ potential.grad(path[-1])
        before = potential.value(expected) + 0.5 * p0 @ light @ p0
        after = potential.value(path[-1]) + 0.5 * p @ light @ p
        if after - before <= rng.standard_exponential():
            expected = path[-1]
            if t < 5:
                for old, new in pairwise(path):
                    s.append(new - old)
                    y.append(potential.grad(new) - potential.grad(old))
    assert len(s) > 6
    np.testing.assert_allclose(theta, expected, rtol=1e-8)


def test_bfgs_learns_the_dense_twin_in_the_chains_that_accept():
    s, y = pairs(4, (3,))
    s[:, 1] = y[:, 1] = np.nan  # a trajectory that diverged
    y[2, 2] *= -1  # negative curvature
    start = BFGS(0.7 * np.repeat(np.eye(6)[None], 3, 0))
    taken = np.array([True, False, True])
    b = start.update(taken, s, y).b
    np.testing.assert_allclose(b[0], dense(s[:, 0], y[:, 0]), rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(b[1], start.b[1])
    np.testing.assert_allclose(
        b[2], dense(s[[0, 1, 3], 2], y[[0, 1, 3], 2]), rtol=1e-10, atol=1e-12
    )
    np.testing.assert_array_equal(b, np.swapaxes(b, -1, -2))


def test_lbfgs_keeps_the_latest_pairs_of_the_chains_that_accept():
    old, new = pairs(3, (2,)), pairs(2, (2,), seed=1)
    learnt = LBFGS(*old, 0.7).update(np.array([True, False]), *new)
    for field, before, after in zip(learnt[:2], old, new, strict=True):
        np.testing.assert_array_equal(field[:, 0], np.stack([before[2, 0], *after[:, 0]]))
        np.testing.assert_array_equal(field[:, 1], before[:, 1])


def mean_square(sampler, *, chains=500, steps=400, seed=6):
    """Mean and standard error of |theta|^2 on the quartic law, from it, over the second half."""
    target, rng = Quartic(), generator(seed)
    state = sampler.init(rng, target.start(rng, (chains,)))
    total = 0.0
    for k in range(steps):
        state = sampler.step(rng, state, target)
        if k >= steps // 2:
            total = total + (state.theta**2).sum(-1) / (steps - steps // 2)
    return total.mean(), total.std() / math.sqrt(chains)


@pytest.mark.slow
def test_c_that_never_rests_has_another_law():
    # E |theta|^2 = 2 / sqrt(pi) = 1.128. C is the inverse curvature where the chain is: small far
    # out, where it therefore stays. At eps = 0.5 it is trapped near zero, where C is large.
    exact = 2 / math.sqrt(math.pi)
    far, error = mean_square(QNHMC(0.1, 5))
    assert far - Z_MOST * error > 2.5 * exact
    far, error = mean_square(QNHMC(0.1, 5, memory=2))
    assert far - Z_MOST * error > 1.2 * exact
    near, error = mean_square(QNHMC(0.5, 5))
    assert near + Z_MOST * error < 0.5 * exact


def ensemble_step(target, sampler, *, steps=1, n=CHAINS, dtype=np.float64):
    """Step ensembles of independent members of the exact law, and return the ensembles."""
    past = target.start(generator(0, 0), (sampler.ensemble, n), dtype)
    rng = generator(0, 1)
    state = sampler.init(rng, past[-1])._replace(past=past)
    for _ in range(steps):
        state = sampler.step(rng, state, target)
    return state


def independent_p(target, past):
    """Least p-value of members with the exact law, independent of each other."""
    radius = (past.astype(float) ** 2).sum(-1)
    together = [
        stats.spearmanr(radius[i], radius[j]).pvalue for i in range(len(past)) for j in range(i)
    ]
    return min(*together, *(target.p_value(member) for member in past))


@pytest.mark.parametrize("dtype", [pytest.param(np.float32, marks=pytest.mark.slow), np.float64])
def test_hmcbfgs_leaves_the_law_of_its_ensemble(dtype, monkeypatch):
    target, sampler = Quartic(), HMCBFGS(0.9, 3, ensemble=4, gamma=0.3)
    state = ensemble_step(target, sampler, steps=4, dtype=dtype)
    assert state.theta.dtype == state.past.dtype == dtype
    assert 0.3 < state.accepted.mean() / 4 < 0.95
    np.testing.assert_array_equal(state.theta, state.past[-1])
    assert independent_p(target, state.past) > P_LEAST
    monkeypatch.setattr(hmc, "metropolis", wrong_way)
    assert independent_p(target, ensemble_step(target, sampler, dtype=dtype).past) < P_LEAST
    monkeypatch.undo()
    # Momenta of another covariance than the inverse of H.
    monkeypatch.setattr(lbfgs.InverseHessian, "inverse_root", lbfgs.InverseHessian.apply)
    assert independent_p(target, ensemble_step(target, sampler, dtype=dtype).past) < P_LEAST


def test_hmcbfgs_leaves_a_positive_law():
    target = Orthant()
    theta = ensemble_step(target, HMCBFGS(0.6, 3, ensemble=4)).theta
    assert (theta >= 0).all()
    assert target.p_value(theta) > P_LEAST


@pytest.mark.parametrize("ensemble", [3, 5])
def test_hmcbfgs_is_its_algorithm_written_out(ensemble):
    target = space()
    sampler = HMCBFGS(lambda t: 1.5 / (t + 4), 3, ensemble=ensemble, gamma=0.1)
    start = target.start(generator(1))
    steps = 3 * ensemble + 1
    theta = step_many(target, sampler, start, steps=steps, seed=2)

    rng = generator(2, 1)
    potential = target.draw(None, start)
    members = [start] * ensemble
    for t in range(steps):
        h = 1.5 / (t + 4)
        others = members[1:]
        # Members at one place give no pair.
        s, y = [], []
        for old, new in pairwise(others):
            if (new != old).any():
                s.append(new - old)
                y.append(potential.grad(new) - potential.grad(old))
        s, y = np.reshape(s, (-1, 3)), np.reshape(y, (-1, 3))
        inverse = dense(s, y, 0.1)
        root = dense_root(s, y, gamma=0.1)
        p = p0 = np.linalg.solve(root.T, rng.standard_normal(3))
        q = members[0]
        for _ in range(3):
            p = p - h / 2 * potential.grad(q)
            q = q + h * inverse @ p
            p = p - h / 2 * potential.grad(q)
        before = potential.value(members[0]) + 0.5 * p0 @ inverse @ p0
        after = potential.value(q) + 0.5 * p @ inverse @ p
        members = [*others, q if after - before <= rng.standard_exponential() else members[0]]
    np.testing.assert_allclose(theta, members[-1], rtol=1e-8)
