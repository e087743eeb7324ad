r"""Control variates: minibatch gradients with little noise near a mode.

.. math:: \hat\nabla U(\theta) = \nabla \tilde U(\theta) - \nabla \tilde U(\theta^*)
   + \nabla U(\theta^*),

both minibatch gradients on the same data points. It is unbiased, and its noise falls with the
distance to :math:`\theta^*`.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.inference.random import START, generator
from alphamf.tools.arrays import Array, namespace


class ControlVariates:
    """A target whose minibatch gradients are corrected by those at a fixed position.

    A gradient costs twice as much. With any sampler: SGLD becomes SGLD-CV.

    Parameters
    ----------
    target
        A target with `batch` and without latents, such as `LinearGaussian`, `LogisticRegression`
        and `DensityTarget`.
    center
        theta*, shape (D,), near the mode: `find_mode`. Far from it the noise is larger than without
        control variates.

    Raises
    ------
    AlphaMFError
        The target has no minibatches, or has latents, or the center has another size.

    References
    ----------
    Baker, Fearnhead, Fox & Nemeth, "Control variates for stochastic gradient MCMC", Statistics and
    Computing 29 (2019), section 3.

    Examples
    --------
    >>> from alphamf.inference.targets.gaussian import LinearGaussian
    >>> rng = np.random.default_rng(0)
    >>> a = rng.standard_normal((1000, 2))
    >>> plain = LinearGaussian(a, a @ np.ones(2) + rng.standard_normal(1000), 1.0, batch=10)
    >>> target = ControlVariates(plain, find_mode(plain, np.zeros(2)))
    >>> theta = plain.mean + 0.03  # one standard deviation away
    >>> noise = [np.std([each.draw(rng, theta).grad(theta) for _ in range(500)], 0).mean()
    ...          for each in (plain, target)]
    >>> bool(noise[1] < noise[0] / 10)
    True
    """

    def __init__(self, target: Any, center: Array) -> None:
        if getattr(target, "batch", None) is None:
            raise AlphaMFError("control variates need a target with minibatches")
        if target.latents:
            raise AlphaMFError("control variates need a target without latents")
        if center.shape != (target.size,):
            raise AlphaMFError(f"center must have shape ({target.size},), not {center.shape}")
        self.target: Any = target
        self.center: Array = center
        self.size: int = target.size
        self.positive: bool = target.positive
        self.latents: dict[str, Array] = {}
        self.gradient: Array = _all_data(target, center).grad(center[None])[0]
        """Gradient of all data at the center, shape (D,)."""
        if hasattr(target, "exact"):
            self.exact: Any = target.exact

    def start(self, rng: Any, chains: tuple[int, ...] = ()) -> Array:
        """Return the target's own start, shape (*chains, D)."""
        start: Array = self.target.start(rng, chains)
        return start

    def draw(self, rng: Any, theta: Array) -> CorrectedPotential:
        """Draw a minibatch, and take its gradient at the center."""
        potential = self.target.draw(rng, theta)
        center = namespace(theta).broadcast_to(self.center.astype(theta.dtype), theta.shape)
        return CorrectedPotential(potential, self.gradient - potential.grad(center))


class CorrectedPotential:
    """U of a minibatch plus the linear function that corrects its gradient.

    `slope`: gradient of all data minus that of the minibatch, at the center, shape (*chains, D).
    """

    def __init__(self, potential: Any, slope: Array) -> None:
        self._potential, self._slope = potential, slope

    def grad(self, theta: Array) -> Array:
        """Gradient, shape (*chains, D)."""
        gradient: Array = self._potential.grad(theta)
        gradient += self._slope
        return gradient

    def value(self, theta: Array) -> Array:
        """U up to a constant, shape (*chains,)."""
        value: Array = self._potential.value(theta) + (self._slope * theta).sum(-1)
        return value


def find_mode(target: Any, start: Array) -> Array:
    """Return a position at which U of all data is least, by L-BFGS on the CPU.

    Parameters
    ----------
    target
        A target without latents whose potentials have values.
    start
        Where to begin, shape (D,).

    Raises
    ------
    AlphaMFError
        No minimum was found.

    Examples
    --------
    >>> from alphamf.inference.targets.gaussian import LinearGaussian
    >>> find_mode(LinearGaussian(np.eye(2), np.ones(2), 1.0), np.zeros(2)).round(3)
    array([0.5, 0.5])
    """
    from scipy.optimize import minimize

    def value_and_gradient(theta: Array) -> tuple[float, Array]:
        potential = _all_data(target, theta)
        return float(potential.value(theta[None])[0]), potential.grad(theta[None])[0]

    # The gradient of many data never is exactly zero: rounding ends the search, too.
    found = minimize(value_and_gradient, np.asarray(start, np.float64), jac=True, method="L-BFGS-B")
    if not (found.success or "ABNORMAL" in str(found.message)) or not np.isfinite(found.x).all():
        raise AlphaMFError(f"no mode was found from this start: {found.message}")
    mode: Array = found.x
    return mode


def _all_data(target: Any, theta: Array) -> Any:
    """Return the potential of all data."""
    whole = copy(target)
    whole.batch = None
    return whole.draw(generator(0, START), theta[None])
