r"""Alpha-stable matrix factorisation: the posterior of W and H given a power spectrogram.

Sources s, each complex symmetric alpha_s-stable with dispersion :math:`v_s = W_s H_s`, add up to
the observed spectrogram X. Given one positive stable variable per source and cell,

.. math:: X_{ij} \mid \Phi \sim \mathcal{N}_c(0, \sigma^2_{ij}), \qquad
   \sigma^2 = \epsilon + \sum_s \Phi^s v_s^{2/\alpha_s},

.. math:: U = \sum_{ij} \left[\log \sigma^2 + |X|^2/\sigma^2\right] - \log p(W) - \log p(H), \qquad
   \frac{\partial U}{\partial v_s} = \frac{2}{\alpha_s} \Phi^s v_s^{2/\alpha_s - 1}
   \left(\frac{1}{\sigma^2} - \frac{|X|^2}{\sigma^4}\right).

sigma^2 is the whole variance E|X|^2 (the convention only rescales W). Phi moves by Metropolis
with its prior as proposal, so the acceptance ratio is the ratio of the likelihoods of X.
A minibatch is every n-th frequency row from a random first one: whole rows, so that work and
memory traffic fall with it (Phi of the other rows rests), and a view, so that nothing is copied.

References
----------
Simsekli et al., "Stochastic Quasi-Newton Langevin Monte Carlo", ICML 2016, section 4.2.
Simsekli, Liutkus, Cemgil, "Alpha-stable matrix factorization", IEEE SPL 22 (2015).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from alphamf.errors import AlphaMFError
from alphamf.factorization.cells import LARGEST, TINY
from alphamf.factorization.compiled import loops
from alphamf.factorization.priors import Flat, Prior
from alphamf.factorization.stable import check_alpha, positive_stable
from alphamf.inference.protocols import Parts
from alphamf.tools.arrays import Array, namespace

FLOOR = 1e-9
"""epsilon: a fixed variance 90 dB below the mean power, so that no cell's likelihood diverges."""


@dataclass(frozen=True)
class Source:
    """One source of the mixture.

    Attributes
    ----------
    alpha
        Index of its stable law, from 0.5 to 2.
    rank
        Number of columns K of W.
    basis
        W held fixed, shape (I, K), or (*clips, I, K) with one for each clip; None to sample W.
    prior_basis, prior_gains
        Priors of the entries of W and of H.
    level
        Scale of the starting values of H, which are uniform on ``level * [0.1, 1.1]``; a free W
        starts from columns that sum to one.
    """

    alpha: float
    rank: int
    basis: Array | None = None
    prior_basis: Prior = Flat()
    prior_gains: Prior = Flat()
    level: float = 0.1


class AlphaMF:
    """Posterior of the free factors of an alpha-stable matrix factorisation.

    Parameters
    ----------
    power
        |X|^2, shape (I, J), of mean about one; or (*clips, I, J) of several clips, each with
        factors of its own, which move together.
    sources
        Two or more for a separation, one for training.
    blocks
        Number of row blocks; a draw reads one of them, chosen at random (1: full batch).

    Attributes
    ----------
    latents
        ``phi<s>`` of shape (*chains, *clips, I, J) for each source with alpha below 2.
    shape, exponent
        What `Parts` says of the priors' shapes and of multiplicative updates, shape (D,).
    layout
        Where W (None if fixed) and H of each source lie in theta.
    accepted, proposed
        Counts of the Metropolis moves of Phi, one of each per source, since `start`.

    Raises
    ------
    AlphaMFError
        A shape, an alpha or the number of blocks does not fit.
    """

    positive = True

    def __init__(self, power: Array, sources: Sequence[Source], *, blocks: int = 1) -> None:
        if power.ndim < 2 or not power.size:
            raise AlphaMFError(f"power must be a non-empty matrix, not of shape {power.shape}")
        *clips, rows, columns = power.shape
        if not 1 <= blocks <= rows:
            raise AlphaMFError(f"blocks must be from 1 to {rows}, not {blocks}")
        for s, source in enumerate(sources):
            check_alpha(source.alpha, f"alpha of source {s}")
            if source.rank < 1:
                raise AlphaMFError(f"rank of source {s} must be at least 1, not {source.rank}")
            one = (rows, source.rank)
            if source.basis is not None and source.basis.shape not in (one, (*clips, *one)):
                raise AlphaMFError(f"basis of source {s} has shape {source.basis.shape}, not {one}")
        self.power = power
        self.sources = tuple(sources)
        self.blocks = blocks
        self.loops = loops(power)
        self.latents: dict[str, Array] = {}
        self.accepted: list[Any] = [0] * len(self.sources)
        self.proposed = [0] * len(self.sources)
        self.layout: list[tuple[slice | None, slice]] = []
        self.size = 0
        for source in self.sources:
            basis = self._extend(rows * source.rank) if source.basis is None else None
            self.layout.append((basis, self._extend(source.rank * columns)))
        xp = namespace(power)
        self.shape = xp.empty(self.size, power.dtype)
        self.exponent = xp.empty(self.size, power.dtype)
        for source, prior, block in self.priors():
            self.shape[block] = prior.shape
            # Majorisation-minimisation of log v^(2/alpha) + |X|^2 / v^(2/alpha) over one factor;
            # where W and H move together, each goes half of the way.
            together = 1 if source.basis is not None else 2
            self.exponent[block] = source.alpha / (source.alpha + 2) / together

    def _extend(self, count: int) -> slice:
        block = slice(self.size, self.size + count)
        self.size += count
        return block

    def priors(self) -> Iterator[tuple[Source, Prior, slice]]:
        """Yield each block of theta with its source and prior."""
        for source, (basis, gains) in zip(self.sources, self.layout, strict=True):
            if basis is not None:
                yield source, source.prior_basis, basis
            yield source, source.prior_gains, gains

    def unpack(self, theta: Array) -> list[tuple[Array, Array]]:
        """Return (W, H) of each source as views of theta, a fixed W as it is.

        W has shape (*chains, *clips, I, K) where it is free; H (*chains, *clips, K, J).
        """
        rows, columns = self.power.shape[-2:]
        chains = theta.shape[:-1]
        factors = []
        for source, (basis, gains) in zip(self.sources, self.layout, strict=True):
            w: Any = source.basis
            if basis is not None:
                w = theta[..., basis].reshape(*chains, rows, source.rank)
            factors.append((w, theta[..., gains].reshape(*chains, source.rank, columns)))
        return factors

    def start(self, rng: Any, chains: tuple[int, ...] = ()) -> Array:
        """Draw starting factors, shape (*chains, *clips, D), and Phi from its prior."""
        xp = namespace(self.power)
        theta: Array = xp.empty((*chains, *self.power.shape[:-2], self.size), self.power.dtype)
        rng.random(dtype=theta.dtype, out=theta)
        theta += 0.1
        for source, (w, h) in zip(self.sources, self.unpack(theta), strict=True):
            h *= source.level
            if source.basis is None:
                w /= w.sum(-2, keepdims=True)
        shape = (*chains, *self.power.shape)
        self.latents = {
            f"phi{s}": positive_stable(rng, source.alpha, xp.empty(shape, theta.dtype))
            for s, source in enumerate(self.sources)
            if source.alpha < 2
        }
        self.accepted = [0] * len(self.sources)
        self.proposed = [0] * len(self.sources)
        count = 2 * len(self.sources) + self.loops.SCRATCH + 2
        self._buffers = [xp.empty(shape, theta.dtype) for _ in range(count)]
        return theta

    def draw(self, rng: Any, theta: Array) -> AlphaMFPotential:
        """Draw a block of rows, move its Phi given theta, and return the potential of both."""
        first = int(rng.integers(self.blocks)) if self.blocks > 1 else 0
        potential = AlphaMFPotential(self, slice(first, None, self.blocks), self._buffers)
        for s, accepted, proposed in potential.move_latents(rng, theta):
            self.accepted[s] += accepted
            self.proposed[s] += proposed
        return potential

    def gain(self, theta: Array, source: int = 0) -> Array:
        """Share of a source in sigma^2 at theta and the current Phi: its Wiener gain.

        Returns
        -------
        ndarray
            Shape (*chains, *clips, I, J), from 0 to 1. Its posterior mean times X is that of the
            source.
        """
        return AlphaMFPotential(self, slice(None), self._buffers).gain(theta, source)

    def variance(self, theta: Array, source: int) -> Array:
        """Variance v^(2/alpha) of a source at theta, without Phi: shape (*chains, *clips, I, J)."""
        w, h = self.unpack(theta)[source]
        alpha = self.sources[source].alpha
        most = LARGEST ** (alpha / 2)  # as in the cells: beyond it, v^4 leaves single precision
        variance: Array = namespace(theta).minimum(w @ h, most) ** (2 / alpha)
        return variance

    def row_parts(self, theta: Array, source: int) -> tuple[Array, Array]:
        """Positive parts of the likelihood's gradient by the log of a gain per row of v.

        Returns
        -------
        tuple of ndarray
            Sums over the columns of v dU/dv, its part from log sigma^2 and its part from
            |X|^2 / sigma^2, each of shape (*chains, *clips, I).
        """
        return AlphaMFPotential(self, slice(None), self._buffers).row_parts(theta, source)

    @property
    def acceptance(self) -> list[float]:
        """Share of accepted Phi proposals of each source (1 where alpha is 2: Phi is constant)."""
        counts = zip(self.accepted, self.proposed, strict=True)
        return [float(accepted) / proposed if proposed else 1.0 for accepted, proposed in counts]


class AlphaMFPotential:
    """U of one block of rows at fixed Phi, scaled up to the whole matrix.

    Its buffers belong to the target, so a potential lives until the target's next draw.

    Attributes
    ----------
    rows
        The rows that it reads.
    phi
        Phi of these rows: a view of the target's latents per source, or the constant 2.
    """

    def __init__(self, target: AlphaMF, rows: slice, buffers: list[Array]) -> None:
        self.target = target
        self.rows = rows
        xp = namespace(target.power)
        self.power = xp.ascontiguousarray(target.power[..., rows, :])
        self.phi = [
            xp.ascontiguousarray(target.latents[f"phi{s}"][..., rows, :])
            if source.alpha < 2
            else 2.0
            for s, source in enumerate(target.sources)
        ]
        # Blocks may differ by a row, and the loops want contiguous buffers.
        shape = (*buffers[0].shape[:-2], *self.power.shape[-2:])
        views = [buffer.reshape(-1)[: math.prod(shape)].reshape(shape) for buffer in buffers]
        n = len(target.sources)
        self._v, self._parts, self._scratch = views[:n], views[n : 2 * n], views[2 * n : -2]
        self._rest, self._sigma2 = views[-2:]
        self._theta: Array | None = None

    def _factors(self, theta: Array) -> list[tuple[Array, Array]]:
        return [(w[..., self.rows, :], h) for w, h in self.target.unpack(theta)]

    def _evaluate(self, theta: Array) -> None:
        """Compute v_s and Phi_s v_s^(2/alpha_s) of every source, and sigma^2, at theta.

        A theta object seen last is taken to be unchanged: samplers are pure, so it is.
        """
        if theta is self._theta:
            return
        xp = namespace(theta)
        for s, (w, h) in enumerate(self._factors(theta)):
            xp.matmul(w, h, out=self._v[s])
            alpha = self.target.sources[s].alpha
            self.target.loops.weigh(self._v[s], alpha, self.phi[s], self._parts[s])
        self._add_parts(self._sigma2)
        self._theta = theta

    def _add_parts(self, total: Array, but: int | None = None) -> None:
        """Put epsilon and what the sources, but for one, contribute to sigma^2 into `total`."""
        parts = [part for s, part in enumerate(self._parts) if s != but]
        if not parts:
            total.fill(FLOOR)
            return
        namespace(total).add(parts[0], FLOOR, out=total)
        for part in parts[1:]:
            total += part

    def move_latents(self, rng: Any, theta: Array) -> Iterator[tuple[int, Any, int]]:
        """Move Phi of each source in turn; yield source, accepted and proposed cells of each."""
        self._evaluate(theta)
        for s, source in enumerate(self.target.sources):
            if source.alpha == 2:
                continue
            phi, part = self.phi[s], self._parts[s]
            self._add_parts(self._rest, but=s)
            accepted = self.target.loops.move(
                rng, source.alpha, self.power, phi, part, self._rest, self._sigma2, self._scratch
            )
            if self.target.blocks > 1:
                self.target.latents[f"phi{s}"][..., self.rows, :] = phi
            yield s, accepted, part.size

    def _slopes(self, function: Any, s: int) -> Any:
        """Return what a function of `loops` makes of the likelihood's slope by v of a source."""
        return function(
            self.target.sources[s].alpha,
            float(self.target.blocks),
            self.power,
            self._v[s],
            self._parts[s],
            self._sigma2,
            self._scratch[:2],
        )

    def _chain_rule(self, s: int, dv: Array, factors: tuple[Array, Array], out: Array) -> None:
        """Put dU/dv of a source, pushed through v = W H, into its blocks of a flat gradient."""
        xp = namespace(out)
        w, h = factors
        basis, gains = self.target.layout[s]
        chains = out.shape[:-1]
        view = out[..., gains].reshape(*chains, *h.shape[-2:])
        view[...] = xp.matmul(xp.swapaxes(w, -1, -2), dv)
        if basis is not None:
            view = out[..., basis].reshape(*chains, -1, w.shape[-1])
            if self.target.blocks > 1:
                view[...] = 0
            view[..., self.rows, :] = xp.matmul(dv, xp.swapaxes(h, -1, -2))

    def grad(self, theta: Array) -> Array:
        """Gradient of U, shape (*chains, *clips, D)."""
        self._evaluate(theta)
        gradient: Array = namespace(theta).empty_like(theta)
        for s, factors in enumerate(self._factors(theta)):
            self._chain_rule(s, self._slopes(self.target.loops.slope, s), factors, gradient)
        for _, prior, block in self.target.priors():
            prior.add_gradient(theta[..., block], gradient[..., block])
        return gradient

    def parts(self, theta: Array) -> Parts:
        """Gradient of U in two positive parts, each of shape (*chains, *clips, D)."""
        self._evaluate(theta)
        xp = namespace(theta)
        plus, minus = xp.empty_like(theta), xp.empty_like(theta)
        for s, factors in enumerate(self._factors(theta)):
            for slope, total in zip(
                self._slopes(self.target.loops.slopes, s), (plus, minus), strict=True
            ):
                self._chain_rule(s, slope, factors, total)
        for _, prior, block in self.target.priors():
            prior.add_parts(theta[..., block], plus[..., block], minus[..., block])
        return Parts(plus, minus, self.target.shape, self.target.exponent)

    def row_parts(self, theta: Array, source: int) -> tuple[Array, Array]:
        """See `AlphaMF.row_parts`; of this block's rows."""
        self._evaluate(theta)
        plus, minus = self._slopes(self.target.loops.slopes, source)
        plus *= self._v[source]
        minus *= self._v[source]
        return plus.sum(-1), minus.sum(-1)

    def gain(self, theta: Array, source: int) -> Array:
        """See `AlphaMF.gain`; of this block's rows."""
        self._evaluate(theta)
        return self._parts[source] / self._sigma2

    def value(self, theta: Array) -> Array:
        """U up to a constant, shape (*chains, *clips)."""
        xp = namespace(theta)
        self._evaluate(theta)
        cells = xp.log(self._sigma2) + self.power / self._sigma2
        total: Array = self.target.blocks * cells.sum((-2, -1))
        for _, prior, block in self.target.priors():
            total = total + prior.potential(xp.maximum(theta[..., block], TINY)).sum(-1)
        return total
