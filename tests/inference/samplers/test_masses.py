"""MassEM: the algorithm written out, what momenta and positions teach, and its drift."""

import math

import numpy as np
import pytest
from scipy import stats

from alphamf.errors import AlphaMFError
from alphamf.inference.checks import P_LEAST, Z_MOST
from alphamf.inference.metric import Dense, Diagonal
from alphamf.inference.random import generator, noise
from alphamf.inference.samplers.hmc import HMC
from alphamf.inference.samplers.masses import MassEM
from alphamf.inference.samplers.sghmc import SGHMC
from tests.support.posteriors import gaussian_draws, gaussian_p, gaussian_z, plane

KINDS = [(dense, source) for dense in (False, True) for source in ("momenta", "positions")]


def written_out(mass, rng, thetas, momenta, *, printed=False, forces=None):
    """Algorithm of section 3 for one chain, with every sample stored: M^-1, S_count and k."""
    size = thetas.shape[1]
    prior = size if mass.dense else 1
    inverse, goal, k, start = np.eye(size), mass.samples, 0, 0
    while start + goal <= len(thetas):
        end = start + goal
        p = momenta[start:end]
        n = goal
        # Offsets are drawn one by one, as far as the E step goes.
        offsets, last = [], 0
        while last < n:
            last += 1 + rng.poisson(mass.nu * (len(offsets) + 1.0) ** mass.d)
            offsets += [last] if last <= n else []
        if mass.source == "momenta":
            covariance = p.T @ p + prior * np.linalg.inv(inverse)
        else:
            centred = thetas[start:end] - thetas[start:end].mean(0)
            covariance = centred.T @ centred + prior * inverse
        covariance /= n + prior
        if not mass.dense:
            covariance = np.diag(np.diag(covariance))
        estimate = np.linalg.inv(covariance) if mass.source == "momenta" else covariance
        k += 1
        new = (1 - k**-mass.decay) * inverse + k**-mass.decay * estimate
        picked = p[np.array(offsets, int) - 1]
        q = picked @ inverse
        if len(q):
            spread = q.var(0) if printed else np.sqrt(q.var(0) / len(q))
            width = stats.norm.ppf(0.5 + mass.confidence / 2) * spread
            inside = (np.abs(picked.mean(0) @ new - q.mean(0)) < width).all()
            if forces is not None:
                z = stats.norm.ppf(0.5 + mass.confidence / 2) / np.sqrt(len(q))
                gradient, xi = (f[start:end][np.array(offsets, int) - 1] for f in forces)

                def others(inverse, p=picked, gradient=gradient, xi=xi):
                    return np.column_stack(
                        [gradient + xi * (p @ inverse), np.sum(p @ inverse * p, 1)]
                    )

                old, changed = others(inverse), others(new)
                inside &= (np.abs(changed.mean(0) - old.mean(0)) < z * old.std(0)).all()
            if inside:
                goal += math.ceil(goal / mass.growth)
        inverse, start = new, end
    return inverse, goal, k


def fed(mass, thetas, momenta, seed=3):
    """Return the mass's state after updates with the given samples, shape (steps, *chains, D)."""
    state, rng = mass.init(thetas[0]), generator(seed)
    for theta, momentum in zip(thetas, momenta, strict=True):
        state = mass.update(rng, state, theta, momentum)
    return state


def samples(steps, chains=(), size=3, seed=1, dtype=np.float64):
    """Positions far from zero and momenta, of scales 0.1, 1 and 10, that do not know the mass."""
    rng = generator(seed)
    scales = np.logspace(-1, 1, size)
    shape = (steps, *chains, size)
    thetas = 20 + rng.standard_normal(shape) * scales[::-1]
    return thetas.astype(dtype), (rng.standard_normal(shape) * scales).astype(dtype)


def as_matrix(state, dense):
    return state.inverse if dense else state.inverse[..., None] * np.eye(state.inverse.shape[-1])


@pytest.mark.parametrize(("dense", "source"), KINDS)
@pytest.mark.parametrize("settings", [{}, {"nu": 0.0}, {"confidence": 0.3, "decay": 1.0}])
def test_is_the_algorithm_written_out(dense, source, settings):
    mass = MassEM(samples=10, growth=3, dense=dense, source=source, **settings)
    data = samples(300)
    state = fed(mass, *data)
    # One more sample would change the state but not the twin's.
    inverse, goal, k = written_out(mass, generator(3), *data)
    assert int(state.rounds[0]) == k > 3
    assert int(state.goal[0]) == goal > mass.samples
    np.testing.assert_allclose(as_matrix(state, dense), inverse, rtol=1e-8, atol=1e-12)
    metric = mass.inverse(state)
    assert isinstance(metric, Dense if dense else Diagonal)
    assert metric.slope is None


@pytest.mark.parametrize("dense", [False, True])
def test_sgnht_s_test_function_is_written_out_and_decides(dense):
    """Its three terms: S_count grows less often than with the velocity alone."""
    mass = MassEM(samples=12, growth=3, dense=dense, decay=1.0, confidence=0.05, test="sgnht")
    thetas, momenta = samples(400)
    rng = generator(8)
    forces = 0.1 * rng.standard_normal(momenta.shape), 2 + rng.standard_normal((400, 1))
    state, drawn = mass.init(thetas[0]), generator(3)
    for k, (theta, momentum) in enumerate(zip(thetas, momenta, strict=True)):
        state = mass.update(drawn, state, theta, momentum, (forces[0][k], forces[1][k]))
    inverse, goal, k = written_out(mass, generator(3), thetas, momenta, forces=forces)
    assert int(state.rounds[0]) == k > 3
    assert int(state.goal[0]) == goal
    np.testing.assert_allclose(as_matrix(state, dense), inverse, rtol=1e-8, atol=1e-12)
    plain = MassEM(samples=12, growth=3, dense=dense, decay=1.0, confidence=0.05)
    assert goal < int(fed(plain, thetas, momenta).goal[0])
    with pytest.raises(AlphaMFError, match="'sgnht' needs SGNHT"):
        fed(mass, thetas[:2], momenta[:2])


def test_printed_half_width_would_depend_on_the_unit():
    # Scaling p by u and M with it changes nothing but the unit of q: so must S_count's growth.
    goals, printed = set(), set()
    for unit in (1e-2, 1.0, 1e2):
        thetas, momenta = samples(400)
        mass = MassEM(samples=10, growth=3, decay=1.0, confidence=0.5)
        first = written_out(mass, generator(3), thetas[:10], momenta[:10] * unit)
        assert first[2] == 1
        goals.add(int(fed(mass, thetas, momenta * unit).goal[0]))
        printed.add(written_out(mass, generator(3), thetas, momenta * unit, printed=True)[1])
    assert len(goals) < len(printed)


def known_mass(mass, chains, size):
    """Return a state whose M^-1 is not the unit one, and that M^-1 as a matrix."""
    rng = np.random.default_rng(5)
    a = rng.standard_normal((size, size)) + 2 * np.eye(size)
    inverse = a @ a.T if mass.dense else np.diag(np.exp(rng.standard_normal(size)))
    state = mass.init(np.zeros((chains, size)))
    given = inverse if mass.dense else np.diag(inverse)
    return state._replace(inverse=np.broadcast_to(given, state.inverse.shape).copy()), inverse


def learnt_in_equilibrium(mass, chains, size, steps, seed=0):
    """Return each chain's M^-1, relative to the one at the start, from momenta of N(0, M)."""
    state, inverse = known_mass(mass, chains, size)
    rng, theta = generator(seed), np.zeros((chains, size))
    for _ in range(steps):
        p = mass.inverse(state).inverse_root(noise(rng, theta))
        state = mass.update(rng, state, theta, p)
    assert (state.samples == 0).all()
    root = np.linalg.inv(np.linalg.cholesky(inverse))
    return root @ as_matrix(state, mass.dense) @ root.T


@pytest.mark.parametrize("n", [15, 45, 400])
def test_drift_is_that_of_the_docstring(n):
    size, chains = 30, 40
    y = size / n
    c = (1 + y) * (math.sqrt(1 + 4 * y * y) - 1) / (2 * y * y)
    assert c < 1.2501
    mass = MassEM(samples=n, growth=math.inf, dense=True)
    relative = learnt_in_equilibrium(mass, chains, size, n)
    learnt = np.trace(relative, axis1=1, axis2=2).mean() / size
    assert learnt == pytest.approx(c, rel=0.01)
    # Wishart's own factor, without the added samples.
    if n > size + 1:
        assert c < n / (n - size - 1)


class Gaussian:
    """Independent coordinates of given variances; gradient noise is `heat` times the precision."""

    positive = False
    latents: dict = {}  # noqa: RUF012

    def __init__(self, variances, heat=0.0):
        self.variances, self.heat, self.size = variances, heat, len(variances)

    def draw(self, rng, theta):
        self.rng = rng
        return self

    def grad(self, theta):
        gradient = theta / self.variances
        if self.heat:
            gradient += np.sqrt(self.heat / self.variances) * noise(self.rng, theta)
        return gradient

    def value(self, theta):
        return 0.5 * (theta * theta / self.variances).sum(-1)


def exponent(sampler, target, *, start=None, steps=1500, chains=16):
    """Slope of log M^-1 in the log variances, from the exact law or from a start: mean, error."""
    draws = generator(1).standard_normal((chains, target.size)) * np.sqrt(target.variances)
    if start is not None:
        draws = np.full_like(draws, start)
    rng = generator(2)
    state = sampler.init(rng, draws)
    for _ in range(steps):
        state = sampler.step(rng, state, target)
    logs = np.log(state.mass.inverse)
    slopes = np.polyfit(np.log(target.variances), logs.T, 1)[0]
    return slopes.mean(), slopes.std() / math.sqrt(chains)


@pytest.mark.slow
def test_momenta_teach_nothing_in_equilibrium_and_positions_the_variances():
    target = Gaussian(np.logspace(-2, 2, 6))

    def sampler(source):
        return HMC(0.1, leaps=10, mass=MassEM(samples=50, source=source))

    slope, error = exponent(sampler("momenta"), target)
    assert abs(slope) < Z_MOST * error
    assert error < 0.02
    slope, _ = exponent(sampler("positions"), target)
    assert slope == pytest.approx(1, abs=0.03)


@pytest.mark.slow
def test_momenta_learn_from_a_descent_and_from_the_noise_of_gradients():
    variances = np.logspace(-2, 2, 6)
    mass = MassEM(samples=50)
    slope, error = exponent(HMC(0.1, leaps=10, mass=mass), Gaussian(variances), start=10.0)
    assert slope > 0.2 + Z_MOST * error
    slope, error = exponent(SGHMC(0.05, leaps=10, mass=mass), Gaussian(variances, heat=10.0))
    assert slope > 0.3 + Z_MOST * error
    # V / P = heat, so the momenta's covariance is M (1 + h heat P / 2 C): nearly M without it.
    slope, error = exponent(SGHMC(0.05, leaps=10, mass=mass), Gaussian(variances))
    assert abs(slope) < 0.1


@pytest.mark.parametrize(("dense", "source"), KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_stays_positive_definite_with_fewer_samples_than_coordinates(dense, source, dtype):
    mass = MassEM(samples=3, growth=4, dense=dense, source=source)
    thetas, momenta = samples(60, (5,), size=20, dtype=dtype)
    state = fed(mass, thetas, momenta)
    assert state.rounds.min() > 4
    assert np.linalg.eigvalsh(as_matrix(state, dense)).min() > 0
    for name in ("inverse", "mean", "scatter", "momentum", "square"):
        assert getattr(state, name).dtype == dtype
    draw = mass.inverse(state).inverse_root(momenta[0])
    assert draw.dtype == dtype
    assert np.isfinite(draw).all()


@pytest.mark.slow
@pytest.mark.parametrize("dense", [False, True])
def test_any_learnt_mass_that_rests_leaves_the_law(dense):
    target = plane()
    sampler = HMC(0.1, leaps=4, mass=MassEM(samples=4, dense=dense, freeze=8))
    start = gaussian_draws(target.mean, target.covariance, n=20_000)
    state, rng = sampler.init(generator(0), start), generator(1)
    for _ in range(8):
        state = sampler.step(rng, state, target)
    assert np.std(np.log(as_matrix(state.mass, dense)[:, 0, 0])) > 0.1
    # New draws do not know the masses, which differ from chain to chain.
    fresh = gaussian_draws(target.mean, target.covariance, n=20_000, seed=9)
    resting = state._replace(theta=fresh)
    after = sampler.step(generator(3), resting, target)
    assert after.mass is state.mass
    law = target.mean, target.covariance
    assert gaussian_z(after.theta, *law) < Z_MOST
    assert gaussian_p(after.theta, *law) > P_LEAST


def test_positions_are_taken_about_their_mean():
    thetas, momenta = samples(400, dtype=np.float32)
    settings = {"samples": 200, "source": "positions", "decay": 1.0}

    def error(mass):
        learnt = np.sqrt(fed(mass, thetas, momenta).inverse)
        return np.abs(learnt / thetas.std(0) - 1).max()

    class AboutZero(MassEM):
        def update(self, rng, state, *sample):
            return super().update(rng, state._replace(mean=0 * state.mean), *sample)

    assert error(MassEM(**settings)) < 0.2
    assert error(AboutZero(**settings)) > 1
