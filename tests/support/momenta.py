"""Normal targets and masses for samplers with momenta, and the samplers' exact laws on them."""

import itertools
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial.hermite_e import hermegauss, hermevander
from scipy.linalg import expm

from alphamf.inference.laws import discretised
from alphamf.inference.metric import Dense, Diagonal

PRECISION = np.array([[2.0, 0.6], [0.6, 0.5]])
INVERSE_MASS = np.array([[1.5, -0.4], [-0.4, 0.3]])


class Known(NamedTuple):
    """State of a fixed mass."""

    inverse: Any


@dataclass(frozen=True)
class FixedMass:
    """A constant mass, given by its inverse: a matrix, or a diagonal."""

    given: Any

    def init(self, theta):
        return Known(np.asarray(self.given, theta.dtype))

    def inverse(self, state):
        return Diagonal(state.inverse) if state.inverse.ndim == 1 else Dense(state.inverse)

    def update(self, rng, state, theta, momentum):
        return state


class Normal:
    """A normal law about zero, folded at zero if positive; gradients with noise of variance v."""

    def __init__(self, precision, noise=0.0, positive=False):
        self.precision, self.noise, self.positive = np.asarray(precision), noise, positive
        self.size = len(self.precision)
        self.latents: dict = {}

    def draw(self, rng, theta):
        if not self.noise:
            return Tilted(self.precision, 0.0)
        force = math.sqrt(self.noise) * rng.standard_normal(theta.shape, dtype=theta.dtype)
        return Tilted(self.precision, force)


class Tilted(NamedTuple):
    """U = theta' P theta / 2 + force' theta."""

    precision: Any
    force: Any

    def grad(self, theta):
        return theta @ self.precision.astype(theta.dtype) + self.force

    def value(self, theta):
        return (theta * (0.5 * self.grad(theta) + 0.5 * self.force)).sum(-1)

    def metric(self, theta):
        return Dense(self.precision)


def blocks(theta_theta, theta_p, p_theta, p_p):
    return np.block([[theta_theta, theta_p], [p_theta, p_p]])


def scheme(sampler, h, precision, inverse, gradient_noise=0.0):
    """Return drift and noise of a leap on (theta, p), written out."""
    eye, zero = np.eye(len(precision)), np.zeros_like(precision)

    def move(t):
        return blocks(eye, t * inverse, zero, eye)

    if sampler.integrator == "baoab":
        decay = expm(-h * sampler.friction * inverse)
        mass = np.linalg.inv(inverse)
        friction = blocks(eye, zero, zero, decay)
        kick = blocks(eye, zero, -h * precision, eye)
        fresh = blocks(zero, zero, zero, mass - decay @ mass @ decay.T)
        kicked = blocks(zero, zero, zero, h**2 * gradient_noise * eye)
        before = friction @ move(h / 2)
        noise = before @ kicked @ before.T + fresh
        return move(h / 2) @ before @ kick, move(h / 2) @ noise @ move(h / 2).T
    kicks = 2 * h * (sampler.friction - sampler.noise_estimate) + h**2 * gradient_noise
    noise = blocks(zero, zero, zero, kicks * eye)
    if sampler.integrator == "euler":
        kick = blocks(eye, zero, -h * precision, eye - h * sampler.friction * inverse)
        return move(h) @ kick, move(h) @ noise @ move(h).T
    decay = blocks(eye, zero, zero, expm(-0.5 * h * sampler.friction * inverse))
    kick = blocks(eye, zero, -h * precision, eye)
    after = move(h / 2) @ decay
    return after @ kick @ decay @ move(h / 2), after @ noise @ after.T


def sghmc_law(sampler, h, precision=PRECISION, inverse=INVERSE_MASS, gradient_noise=0.0):
    """Return SGHMC's own stationary covariance of (theta, p)."""
    return discretised(*scheme(sampler, h, precision, inverse, gradient_noise))


class Given:
    """A generator that returns given standard normal numbers."""

    def __init__(self, *arrays):
        self.arrays = list(arrays)

    def standard_normal(self, shape, dtype):
        array = self.arrays.pop(0).copy()
        assert array.shape == shape
        return array


def grid(sizes):
    """Return nodes (n, k) and weights (n,) of a Gauss-Hermite rule in k dimensions."""
    rules = [hermegauss(size) for size in sizes]
    nodes = np.stack([x.ravel() for x in np.meshgrid(*(x for x, _ in rules), indexing="ij")], -1)
    weights = np.stack([w.ravel() for w in np.meshgrid(*(w for _, w in rules), indexing="ij")])
    return nodes, weights.prod(0) / weights.prod(0).sum()


def hermite(x, degree):
    """Return the orthonormal polynomials of three variables up to a degree, by their powers."""
    norms = np.sqrt([float(math.factorial(k)) for k in range(degree + 1)])
    u, v, w = (hermevander(column, degree) / norms for column in x.T)
    powers = [k for k in itertools.product(range(degree + 1), repeat=3) if sum(k) <= degree]
    return {k: u[:, k[0]] * v[:, k[1]] * w[:, k[2]] for k in powers}


def stationary(leap, nodes, weights, degree, decay=lambda powers: 1.0):
    """Return the coefficients of a leap's stationary density, relative to the normal one.

    ``leap`` moves `nodes`, whose first three columns are standard normal at the ideal law, and
    ``decay`` gives the factors of an Ornstein-Uhlenbeck move after it, which is diagonal here. The
    density is developed in Hermite polynomials, and its coefficients c are the means of those under
    the law of the chain, without sampling error: c = c T, with T the leap's matrix.
    """
    before = hermite(nodes[:, :3], degree)
    after = hermite(leap(nodes), degree)
    powers = list(before)
    start = np.stack(list(before.values()), 1) * weights[:, None]
    matrix = start.T @ (np.stack(list(after.values()), 1) * [decay(k) for k in powers])
    # The first coefficient is that of the constant, which is 1.
    rest = np.linalg.solve((np.eye(len(powers)) - matrix)[1:, 1:].T, matrix[0, 1:])
    return dict(zip(powers[1:], rest, strict=True))


MIRRORED = Normal(np.diag([2.0, 0.5]), positive=True)
