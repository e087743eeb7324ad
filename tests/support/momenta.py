"""Normal targets and masses for samplers with momenta, and the samplers' exact laws on them."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import expm, solve_discrete_lyapunov

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
    return solve_discrete_lyapunov(*scheme(sampler, h, precision, inverse, gradient_noise))


MIRRORED = Normal(np.diag([2.0, 0.5]), positive=True)
