r"""Alpha-stable matrix factorisation: the posterior of W and H given a power spectrogram.

Sources s, each complex symmetric alpha_s-stable with dispersion :math:`v_s = W_s H_s`, add up to
the observed spectrogram X. Given one positive stable variable per source and cell,

.. math:: X_{ij} \mid \Phi \sim \mathcal{N}_c(0, \sigma^2_{ij}), \qquad
   \sigma^2 = \epsilon + \sum_s \Phi^s v_s^{2/\alpha_s},

.. math:: U = \sum_{ij} \left[\log \sigma^2 + |X|^2/\sigma^2\right] - \log p(W) - \log p(H), \qquad
   \frac{\partial U}{\partial v_s} = \frac{2}{\alpha_s} \Phi^s v_s^{2/\alpha_s - 1}
   \left(\frac{1}{\sigma^2} - \frac{|X|^2}{\sigma^4}\right).

sigma^2 is the whole variance E|X|^2 (the convention only rescales W), and epsilon is `FLOOR`. Phi
moves by Metropolis with its prior as proposal, so only the likelihoods of X decide on acceptance.
A minibatch is every n-th frequency row from a random first one, where n is the number of `blocks`:
whole rows, so that work and memory traffic fall with n. Phi of the other rows does not move.

References
----------
Simsekli et al., "Stochastic Quasi-Newton Langevin Monte Carlo", ICML 2016, section 4.2.
Simsekli, Liutkus, Cemgil, "Alpha-stable matrix factorization", IEEE SPL 22 (2015).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from alphamf.factorization.cells import FLOOR, CellOutput
from alphamf.factorization.potential import AlphaMFPotential, Notes, Workspace
from alphamf.factorization.priors import Model, Source
from alphamf.inference.protocols import Parts
from alphamf.tools.arrays import Array, namespace

__all__ = ["FLOOR", "AlphaMFTarget", "Source"]


class AlphaMFTarget(Model):
    """Posterior of the free factors of an alpha-stable matrix factorisation.

    Parameters
    ----------
    power
        |X|^2, shape (I, J), of mean about one; or (*clips, I, J) of several clips, each with
        factors of its own, which move together.
    sources
        The sources: two or more for a separation, one for training.
    blocks
        Number of row blocks; a draw reads one of them, chosen at random (1: full batch).

    Attributes
    ----------
    latents
        ``phi<s>`` of shape (*chains, *clips, I, J) for each source with alpha below 2.
    notes
        Values that `draw_parts` stores on request, so that the cells need not be computed twice.
    accepted, proposed
        Counts of the Metropolis moves of Phi, one of each per source, since `start`.

    Raises
    ------
    AlphaMFError
        A shape, an alpha, a rank or the number of blocks does not fit.

    Examples
    --------
    >>> import numpy as np
    >>> from alphamf.inference.chain import run
    >>> from alphamf.inference.samplers.sgrld import EM
    >>> power = np.outer([1.0, 0.0, 1.0], [1.0, 2.0]) + np.outer([0.0, 1.0, 0.0], [3.0, 0.0])
    >>> chord, click = np.array([[0.5], [0.0], [0.5]]), np.array([[0.0], [1.0], [0.0]])
    >>> target = AlphaMFTarget(power, [Source(2.0, 1, basis=chord), Source(2.0, 1, basis=click)])
    >>> *_, last = run(target, EM(), steps=100, seed=0)
    >>> target.gain(last.theta).round(2)  # of the chord
    array([[1., 1.],
           [0., 0.],
           [1., 1.]])
    """

    positive = True

    def __init__(self, power: Array, sources: Sequence[Source], *, blocks: int = 1) -> None:
        super().__init__(power, sources, blocks)
        self.latents: dict[str, Array] = {}
        self.accepted: list[Any] = [0] * len(sources)
        self.proposed: list[int] = [0] * len(sources)
        self.notes: Notes = Notes()
        self._workspace = Workspace(self.xp)
        self._device_rng: Any = None
        self._host_rng: Any = None

    def start(self, rng: Any, chains: tuple[int, ...] = ()) -> Array:
        """Draw initial factors, (*chains, *clips, D), and Phi from its prior; reset the counts."""
        xp = namespace(self.power)
        theta: Array = xp.empty((*chains, *self.power.shape[:-2], self.size), self.power.dtype)
        rng.random(theta.shape, dtype=theta.dtype, out=theta)
        theta += 0.1
        for source, (w, h) in zip(self.sources, self.unpack(theta), strict=True):
            h *= source.level
            if source.basis is None:
                w /= w.sum(-2, keepdims=True)
        shape = (*chains, *self.power.shape)
        self.latents = {
            f"phi{s}": self.loops.fill_stable(rng, source.alpha, xp.empty(shape, theta.dtype))
            for s, source in enumerate(self.sources)
            if source.alpha < 2
        }
        self.accepted = [0] * len(self.sources)
        self.proposed = [0] * len(self.sources)
        return theta

    def draw(self, rng: Any, theta: Array) -> AlphaMFPotential:
        """Draw a block of rows, move its Phi given theta, and return the block's potential."""
        return self._draw(rng, theta, CellOutput.MOVE)[0]

    def draw_gradient(self, rng: Any, theta: Array) -> tuple[AlphaMFPotential, Array]:
        """Draw a potential and its gradient at theta, in one pass over the cells.

        Both have the same bits as from `draw` and then `AlphaMFPotential.grad`.
        """
        potential, sums = self._draw(rng, theta, CellOutput.SLOPE)
        return potential, potential.gradient(theta, sums)

    def draw_parts(self, rng: Any, theta: Array) -> tuple[AlphaMFPotential, Parts]:
        """Draw a potential and its gradient's parts at theta, in one pass over the cells.

        Both have the same bits as from `draw` and then `AlphaMFPotential.parts`. If there is one
        block, `notes` stores the requested values.
        """
        potential, sums = self._draw(rng, theta, CellOutput.SLOPES)
        return potential, potential.gradient_parts(theta, sums)

    def _draw(self, rng: Any, theta: Array, want: CellOutput) -> tuple[AlphaMFPotential, Array]:
        """Draw a block, move its Phi, and return its potential and its sums of slopes."""
        self.notes.forget()
        potential = self.potential(slice(self._block(rng), None, self.blocks))
        notes = self.notes if want == CellOutput.SLOPES and self.blocks == 1 else None
        moves, sums = potential.move_latents(rng, theta, want, notes)
        for s, (accepted, proposed) in enumerate(moves):
            self.accepted[s] += accepted
            self.proposed[s] += proposed
        return potential, sums

    def _block(self, rng: Any) -> int:
        """Draw a block's number; synchronise with a GPU once per generator, not once per draw."""
        if self.blocks == 1:
            return 0
        if namespace(self.power) is not np:
            if rng is not self._device_rng:
                seed = int(rng.integers(1 << 31))
                self._device_rng, self._host_rng = rng, np.random.default_rng(seed)
            rng = self._host_rng
        return int(rng.integers(self.blocks))

    def potential(self, rows: slice = slice(None)) -> AlphaMFPotential:
        """Return the potential of `rows` at the current Phi, with the likelihood times `blocks`."""
        return AlphaMFPotential(self, self.latents, rows, self._workspace)

    def gain(self, theta: Array, source: int = 0) -> Array:
        """Return the Wiener gain of a source at theta and the current Phi: its fraction of sigma^2.

        Returns: shape (*chains, *clips, I, J), from 0 to 1.
        """
        return self.potential().gain(theta, source)

    def variance(self, theta: Array, source: int) -> Array:
        """Return a source's v^(2/alpha) at theta, without Phi: shape (*chains, *clips, I, J)."""
        return self.potential().variance(theta, source)

    def row_parts(self, theta: Array, source: int) -> tuple[Array, Array]:
        """Return the positive parts of the likelihood's derivative by a log gain per row of v.

        Returns: sums over the columns of v dU/dv, times `blocks`: the part from log sigma^2 and the
        part from |X|^2 / sigma^2, each of shape (*chains, *clips, I).
        """
        return self.potential().row_parts(theta, source)

    @property
    def acceptance(self) -> list[float]:
        """Proportion of accepted Phi proposals of each source; 1 if there are none (alpha = 2)."""
        counts = zip(self.accepted, self.proposed, strict=True)
        return [float(accepted) / proposed if proposed else 1.0 for accepted, proposed in counts]


def stack(power: Array, context: int) -> Array:
    """Stack `context` neighbouring frames; at the ends, the first and the last frame are repeated.

    Zeros would be silence, which no model of the noise can explain.

    Parameters
    ----------
    power
        Shape (..., bins, frames).
    context
        Frames in a column; 1 leaves `power` as it is.

    Returns
    -------
    ndarray
        Shape (..., context * bins, frames + context - 1); block c of column m is frame
        ``m + c - (context - 1)``.

    Examples
    --------
    >>> import numpy as np
    >>> stack(np.array([[1, 2, 3]]), 2)
    array([[1, 1, 2, 3],
           [1, 2, 3, 3]])
    """
    if context == 1:
        return power
    xp = namespace(power)
    columns = power.shape[-1] + context - 1
    padding = [(0, 0)] * (power.ndim - 1) + [(context - 1, context - 1)]
    padded = xp.pad(power, padding, mode="edge")
    return xp.concatenate([padded[..., c : c + columns] for c in range(context)], axis=-2)


def unstack(gain: Array, context: int) -> Array:
    """Return for each frame the average over the columns of `stack` that contain it.

    Parameters
    ----------
    gain
        Shape (..., context * bins, frames + context - 1).
    context
        As given to `stack`.

    Returns
    -------
    ndarray
        Shape (..., bins, frames).

    Examples
    --------
    >>> import numpy as np
    >>> unstack(stack(np.array([[1.0, 2.0, 3.0]]), 2), 2)
    array([[1., 2., 3.]])
    """
    if context == 1:
        return gain
    bins = gain.shape[-2] // context
    frames = gain.shape[-1] - (context - 1)
    blocks = [
        gain[..., c * bins : (c + 1) * bins, context - 1 - c : context - 1 - c + frames]
        for c in range(context)
    ]
    total: Array = sum(blocks[1:], blocks[0]) / context
    return total
