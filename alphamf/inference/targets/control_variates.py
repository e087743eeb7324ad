r"""Minibatch gradients with little noise: control variates at a mode, or along the chain (SAGA)."""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.inference.random import START, draw_rows, generator
from alphamf.inference.targets.density import DensityTarget
from alphamf.tools.arrays import Array, namespace


class ControlVariates:
    r"""A target whose minibatch gradients are corrected by those at a fixed position.

    .. math:: \hat\nabla U(\theta) = \nabla \tilde U(\theta) - \nabla \tilde U(\theta^*)
       + \nabla U(\theta^*),

    both minibatch gradients on the same data points: unbiased, with a noise that is smaller the
    nearer theta is to :math:`\theta^*`, at twice the cost. SGLD becomes SGLD-CV.

    Parameters
    ----------
    target
        A target with `batch` and without latents, such as `LinearGaussian`, `LogisticRegression`
        and `DensityTarget`.
    center
        theta*, shape (D,), near the mode, such as from `find_mode`. Far from the mode the noise is
        larger than without control variates.

    Raises
    ------
    AlphaMFError
        The target has no minibatches, or has latents, or the shape of `center` is not (D,).

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
        return self.target.start(rng, chains)

    def draw(self, rng: Any, theta: Array) -> CorrectedPotential:
        """Draw a minibatch, and return its potential, corrected by its gradient at the center."""
        potential = self.target.draw(rng, theta)
        center = namespace(theta).broadcast_to(self.center.astype(theta.dtype), theta.shape)
        return CorrectedPotential(potential, self.gradient - potential.grad(center))


class CorrectedPotential(NamedTuple):
    """U of a minibatch plus the linear function that corrects its gradient."""

    potential: Any
    slope: Array  # Gradient of all data minus the minibatch's, at the center, shape (*chains, D)

    def grad(self, theta: Array) -> Array:
        gradient: Array = self.potential.grad(theta)
        gradient += self.slope
        return gradient

    def value(self, theta: Array) -> Array:
        line = (self.slope * theta).sum(-1).astype(theta.dtype)
        return self.potential.value(theta) + line


def find_mode(target: Any, start: Array) -> Array:
    """Return a local minimum of U of all data, shape (D,), in float64, by L-BFGS on the CPU.

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
    return found.x


def _all_data(target: Any, theta: Array) -> Any:
    """Return the potential of all data, for theta of shape (D,)."""
    whole = copy(target)
    whole.batch = None
    return whole.draw(generator(0, START), theta[None])


class SAGA:
    r"""A `DensityTarget` whose minibatch gradients are corrected by each data point's latest one.

    .. math:: \hat\nabla U(\theta) = -\nabla \log p(\theta)
       + \frac Nn \sum_{i \in \Omega} (g_i(\theta) - \alpha_i) + \sum_{i=1}^N \alpha_i, \qquad
       \alpha_i' = g_i(\theta) \quad (i \in \Omega),

    with g_i the gradient of -log p(x_i | theta), and alpha_i its value when i was last drawn.
    The alpha_i follow the chain, so SAGA needs no mode, unlike `ControlVariates`; but it keeps N
    vectors for each chain, which are latents and part of a checkpoint. They are filled with a pass
    over all data at the start.

    Parameters
    ----------
    target
        A `DensityTarget` with `batch`.

    Raises
    ------
    AlphaMFError
        The target is not a `DensityTarget`, or has no `batch`.

    References
    ----------
    Dubey, Reddi, Williamson, Poczos, Smola & Xing, "Variance reduction in stochastic gradient
    Langevin dynamics", NIPS 2016, algorithm 1.

    Examples
    --------
    >>> from alphamf.inference.random import generator
    >>> x = np.random.default_rng(0).standard_normal((100, 1))
    >>> def gradient(theta, x):
    ...     return (x - theta).sum(0)
    >>> target = SAGA(DensityTarget(gradient, np.zeros(1), data=x, batch=5))
    >>> theta = np.zeros((1, 1))
    >>> bool(np.allclose(target.draw(generator(0), theta).grad(theta), -x.sum()))  # no noise
    True
    """

    positive = False

    def __init__(self, target: DensityTarget) -> None:
        if not isinstance(target, DensityTarget) or target.batch is None:
            raise AlphaMFError("SAGA needs a DensityTarget with minibatches")
        self.target: DensityTarget = target
        self.size: int = target.size
        self.latents: dict[str, Array] = {}

    def start(self, rng: Any, chains: tuple[int, ...] = ()) -> Array:
        theta = self.target.start(rng, chains)
        self.fill(theta)
        return theta

    def fill(self, theta: Array) -> None:
        """Fill the table with the gradients at theta, shape (*chains, D).

        The first draw does this by itself. Call it before resuming a run that was given a `start`.
        """
        xp = namespace(theta)
        every = xp.broadcast_to(
            xp.arange(self.target.count), (*theta.shape[:-1], self.target.count)
        )
        table = self._gradients(theta, every)
        self.latents = {"table": table, "total": table.sum(-2)}

    def draw(self, rng: Any, theta: Array) -> SAGAPotential:
        """Draw a minibatch per chain, put its gradients into the table; return its potential."""
        return self._drawn(rng, theta)[0]

    def draw_gradient(self, rng: Any, theta: Array) -> tuple[SAGAPotential, Array]:
        """Do as `draw`; return the potential and its gradient at theta, in one pass over rows."""
        potential, gradients = self._drawn(rng, theta)
        return potential, potential.corrected(gradients.sum(-2), theta)

    def _drawn(self, rng: Any, theta: Array) -> tuple[SAGAPotential, Array]:
        xp, count = namespace(theta), self.target.count
        batch: Any = self.target.batch
        if not self.latents:
            self.fill(theta)
        table, total = self.latents["table"], self.latents["total"]
        chosen = xp.sort(draw_rows(rng, count, (*theta.shape[:-1], batch)), axis=-1)
        new = self._gradients(theta, chosen)
        change = new - xp.take_along_axis(table, chosen[..., None], -2)
        correction = total - (new - change).sum(-2) * (count / chosen.shape[-1])
        potential = SAGAPotential(self.target, chosen, correction)
        # A point that was drawn twice counts once in the total.
        first = xp.ones(chosen.shape, bool)
        first[..., 1:] = chosen[..., 1:] != chosen[..., :-1]
        change *= first[..., None]
        self.latents["total"] = total + change.sum(-2)
        xp.put_along_axis(table, chosen[..., None], new, -2)
        return potential, new

    def _gradients(self, theta: Array, chosen: Array) -> Array:
        """Return g_i of the points `chosen`, shape (*chains, n), as an array (*chains, n, D)."""
        xp = namespace(theta)
        each = xp.broadcast_to(theta[..., None, :], (*chosen.shape, self.size)).copy()
        gradients: Array = self.target.density.grad(each, self.target.data, chosen[..., None])
        gradients *= -1
        return gradients


class SAGAPotential(NamedTuple):
    """The potential of a minibatch, with a gradient corrected by the table, and without a value."""

    target: DensityTarget
    chosen: Array  # Rows of each chain, shape (*chains, n)
    # Sum of all alpha_i before the draw minus N / n times that of the minibatch, (*chains, D).
    correction: Array

    def grad(self, theta: Array) -> Array:
        gradient = self.target.density.grad(theta, self.target.data, self.chosen)
        return self.corrected(-gradient, theta)

    def corrected(self, gradient: Array, theta: Array) -> Array:
        """Return U's gradient at theta; `gradient`: sum of the minibatch's g_i, overwritten."""
        gradient *= self.target.count / self.chosen.shape[-1]
        gradient += self.correction
        if self.target.prior is not None:
            gradient -= self.target.prior.grad(theta, (), None)
        return gradient
