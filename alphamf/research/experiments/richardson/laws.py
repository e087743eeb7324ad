r"""The linear Gaussian model of ``richardson``, and its samplers' exact stationary laws.

.. math:: \theta \sim \mathcal{N}(0, 10 I), \qquad a_n \sim \mathcal{N}(0, I / 2), \qquad
   x_n \mid \theta \sim \mathcal{N}(a_n^\top \theta, 1), \qquad n = 1, \dots, 1000.

`LinearGaussian` has a prior of variance one, so it is given :math:`\phi = \theta / \sqrt{10}`. SGLD
in theta with step gamma is SGLD in phi with gamma / 10; SGHMC with step h and friction A is SGHMC
in phi with :math:`h / \sqrt{10}` and :math:`\sqrt{10} A`.
"""

from typing import Any

import numpy as np

from alphamf.inference.random import generator
from alphamf.inference.samplers.langevin import SGLD
from alphamf.inference.samplers.richardson import SGRRHMC, SGRRLD
from alphamf.inference.samplers.sghmc import SGHMC
from alphamf.inference.targets.gaussian import LinearGaussian
from alphamf.tools.arrays import Array

PRIOR_VARIANCE = 10.0
SCALE = float(np.sqrt(PRIOR_VARIANCE))
DATA = 1000

FRICTION = 20.0
"""A of SGHMC, not printed in the main text: about the posterior's frequency, 500^(1/2), at which
momenta decay as fast as positions oscillate."""


def model(size: int, seed: int = 0, batch: int | None = DATA // 10) -> LinearGaussian:
    """Return the posterior of phi, with data drawn from the model."""
    rng = generator(seed, 100 + size)
    a = np.sqrt(0.5) * rng.standard_normal((DATA, size))
    theta = SCALE * rng.standard_normal(size)
    x = a @ theta + rng.standard_normal(DATA)
    return LinearGaussian(SCALE * a, x, 1.0, batch=batch)


def sampler_of(method: str, gamma: float) -> Any:
    """Return a sampler of phi, given the step size in theta."""
    if method == "SGLD":
        return SGLD(gamma / PRIOR_VARIANCE)
    if method == "SGRRLD":
        return SGRRLD(gamma / PRIOR_VARIANCE)
    if method == "SGRRHMC":
        return SGRRHMC(gamma / SCALE, SCALE * FRICTION)
    integrator: Any = "splitting" if method == "SGHMC-s" else "euler"
    return SGHMC(gamma / SCALE, 1, SCALE * FRICTION, integrator=integrator)


def law(target: LinearGaussian, sampler: Any) -> float:
    r"""Return the stationary variance of theta around the posterior mean; for one dimension only.

    With :math:`e = \phi - \mu` and a minibatch's :math:`\nabla \tilde U = \tilde P e + \tilde g`, a
    step is :math:`z' = (T_0 + \tilde P T_1) z + u \tilde g + v \xi`, whose second moments S solve

    .. math:: S = \mathrm{E}[T S T^\top] + \mathrm{Var}(\tilde g)\, u u^\top + v v^\top.

    A cross term does not arise, since z has mean zero. For the pairs of chains it is twice the
    variance at half the step, less that at the step.
    """
    h = float(sampler.step_size)
    if isinstance(sampler, SGRRLD):
        return 2 * law(target, SGLD(h / 2)) - law(target, SGLD(h))
    if isinstance(sampler, SGRRHMC):
        fine, coarse = SGHMC(h / 2, 1, sampler.friction), SGHMC(h, 1, sampler.friction)
        return 2 * law(target, fine) - law(target, coarse)
    if isinstance(sampler, SGLD):
        t0, t1, u, v = (np.array([[c]]) for c in (1.0, -h, h, np.sqrt(2 * h)))
    else:
        t0, t1, u, v = _momentum(sampler, h)
    a, x = target.a[:, 0], target.x
    if target.batch is None:
        spread, heat = 0.0, 0.0
    else:
        # Minibatches of B draws with replacement: variances of N / B times their sums.
        most = len(x) ** 2 / target.batch
        spread = most * float((a * a).var()) / target.variance**2
        heat = most * float((a * (a * target.mean[0] - x)).var()) / target.variance**2
    t = t0 + float(target.precision[0, 0]) * t1
    step = np.kron(t, t) + spread * np.kron(t1, t1)
    noises = heat * u @ u.T + v @ v.T
    moments = np.linalg.solve(np.eye(len(step)) - step, noises.ravel())
    return PRIOR_VARIANCE * float(moments[0])


def _momentum(sampler: SGHMC, h: float) -> tuple[Array, Array, Array, Array]:
    """Return T_0, T_1, u and v for one leap of SGHMC, with z = (e, p)."""
    if sampler.integrator == "splitting":
        drift = np.array([[1, h / 2], [0, 1]])
        before, after, decay = drift, drift, np.exp(-h * sampler.friction / 2)
        keep, gain = decay * decay, decay
    else:
        before, after = np.eye(2), np.array([[1, h], [0, 1]])
        keep, gain = 1 - h * sampler.friction, 1.0
    t0 = after @ np.diag([1, keep]) @ before
    t1 = after @ np.array([[0, 0], [-h * gain, 0]]) @ before
    kick = after @ np.array([[0], [gain]])
    return t0, t1, h * kick, np.sqrt(2 * h * sampler.friction) * kick
