r"""SAGA: minibatch gradients corrected by the latest gradient of every data point.

.. math:: \hat\nabla U(\theta) = -\nabla \log p(\theta)
   + \frac Nn \sum_{i \in \Omega} (g_i(\theta) - \alpha_i) + \sum_{i=1}^N \alpha_i, \qquad
   \alpha_i' = g_i(\theta) \quad (i \in \Omega),

where :math:`g_i` is the gradient of -log p(x_i | theta), and :math:`\alpha_i` the one at the last
position at which point i was drawn.
"""

from __future__ import annotations

from typing import Any

from alphamf.errors import AlphaMFError
from alphamf.inference.random import draw_rows
from alphamf.inference.targets.density import DensityTarget
from alphamf.tools.arrays import Array, namespace


class SAGA:
    """A `DensityTarget` whose minibatch gradients have little noise once its table is filled.

    It follows the chain, so it needs no mode, unlike `ControlVariates`; but it keeps N vectors for
    each chain, which are latents and part of a checkpoint. They are filled with a pass over all
    data at the start.

    Parameters
    ----------
    target
        A `DensityTarget` with `batch`.

    Raises
    ------
    AlphaMFError
        The target is none, or has no `batch`.

    References
    ----------
    Dubey, Reddi, Williamson, Poczos, Smola & Xing, "Variance reduction in stochastic gradient
    Langevin dynamics", NIPS 2016, algorithm 1.

    Examples
    --------
    >>> import numpy as np
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
        """Return the target's own start, shape (*chains, D), and fill the table there."""
        theta = self.target.start(rng, chains)
        self.fill(theta)
        return theta

    def fill(self, theta: Array) -> None:
        """Fill the table with the gradients at theta, shape (*chains, D).

        The first draw does so by itself; to resume a run with a `start` of its own, call it before.
        """
        xp = namespace(theta)
        every = xp.broadcast_to(
            xp.arange(self.target.count), (*theta.shape[:-1], self.target.count)
        )
        table = self._gradients(theta, every)
        self.latents = {"table": table, "total": table.sum(-2)}

    def draw(self, rng: Any, theta: Array) -> SAGAPotential:
        """Draw a minibatch for each chain, and put its gradients at theta into the table."""
        return self._drawn(rng, theta)[0]

    def draw_gradient(self, rng: Any, theta: Array) -> tuple[SAGAPotential, Array]:
        """Draw a minibatch, and return its gradient, which the table needs anyway."""
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
        """Return minus the gradients of the chosen points' log-likelihoods, shape (*chosen, D)."""
        xp = namespace(theta)
        each = xp.broadcast_to(theta[..., None, :], (*chosen.shape, self.size)).copy()
        gradients: Array = self.target.density.grad(each, self.target.data, chosen[..., None])
        gradients *= -1
        return gradients


class SAGAPotential:
    """U of a minibatch, with the correction of its table.

    `chosen`: rows of each chain, shape (*chains, n). `correction`: sum of the table before the draw
    minus that of its scaled minibatch, shape (*chains, D).
    """

    def __init__(self, target: DensityTarget, chosen: Array, correction: Array) -> None:
        self._target, self._chosen, self._correction = target, chosen, correction

    def grad(self, theta: Array) -> Array:
        """Gradient, shape (*chains, D)."""
        target = self._target
        return self.corrected(-target.density.grad(theta, target.data, self._chosen), theta)

    def corrected(self, gradient: Array, theta: Array) -> Array:
        """Return the gradient of U, from the sum of the minibatch's at theta, which is used up."""
        target = self._target
        gradient *= target.count / self._chosen.shape[-1]
        gradient += self._correction
        if target.prior is not None:
            gradient -= target.prior.grad(theta, (), None)
        return gradient
