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

from alphamf.arrays import Array, namespace
from alphamf.errors import AlphaMFError
from alphamf.protocols import Parts
from alphamf.stable import check_alpha, positive_stable, uniform
from alphamf.targets.priors import Flat, Prior

FLOOR = 1e-9
"""epsilon: a fixed variance 90 dB below the mean power, so that no cell's likelihood diverges."""

TINY = 1e-12
"""Smallest dispersion and factor: keeps v^(2/alpha - 1) and (1 - shape) / theta finite."""


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
        W held fixed, shape (I, K); None to sample W.
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
        |X|^2, shape (I, J), of mean about one.
    sources
        Two or more for a separation, one for training.
    blocks
        Number of row blocks; a draw reads one of them, chosen at random (1: full batch).

    Attributes
    ----------
    latents
        ``phi<s>`` of shape (*chains, I, J) for each source with alpha below 2.
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
        if power.ndim != 2 or not power.size:
            raise AlphaMFError(f"power must be a non-empty matrix, not of shape {power.shape}")
        if not 1 <= blocks <= power.shape[0]:
            raise AlphaMFError(f"blocks must be from 1 to {power.shape[0]}, not {blocks}")
        rows, columns = power.shape
        for s, source in enumerate(sources):
            check_alpha(source.alpha, f"alpha of source {s}")
            if source.rank < 1:
                raise AlphaMFError(f"rank of source {s} must be at least 1, not {source.rank}")
            if source.basis is not None and source.basis.shape != (rows, source.rank):
                raise AlphaMFError(
                    f"basis of source {s} has shape {source.basis.shape}, not {(rows, source.rank)}"
                )
        self.power = power
        self.sources = tuple(sources)
        self.blocks = blocks
        self.latents: dict[str, Array] = {}
        self.accepted = [0] * len(self.sources)
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

        W has shape (*chains, I, K) where it is free, (I, K) where it is fixed; H (*chains, K, J).
        """
        rows, columns = self.power.shape
        chains = theta.shape[:-1]
        factors = []
        for source, (basis, gains) in zip(self.sources, self.layout, strict=True):
            w = source.basis
            if basis is not None:
                w = theta[..., basis].reshape(*chains, rows, source.rank)
            factors.append((w, theta[..., gains].reshape(*chains, source.rank, columns)))
        return factors

    def start(self, rng: Any, chains: tuple[int, ...] = ()) -> Array:
        """Draw starting factors, shape (*chains, D), and Phi from its prior."""
        xp = namespace(self.power)
        theta = xp.empty((*chains, self.size), self.power.dtype)
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
        count = 2 * len(self.sources) + 6
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
            Shape (*chains, I, J), from 0 to 1. Its posterior mean times X is the posterior mean
            of the source.
        """
        return AlphaMFPotential(self, slice(None), self._buffers).gain(theta, source)

    def row_parts(self, theta: Array, source: int) -> tuple[Array, Array]:
        """Positive parts of the likelihood's gradient by the log of a gain per row of v.

        Returns
        -------
        tuple of ndarray
            Sums over the columns of v dU/dv, its part from log sigma^2 and its part from
            |X|^2 / sigma^2, each of shape (*chains, I).
        """
        return AlphaMFPotential(self, slice(None), self._buffers).row_parts(theta, source)

    @property
    def acceptance(self) -> list[float]:
        """Share of accepted Phi proposals of each source (1 where alpha is 2: Phi is constant)."""
        return [a / p if p else 1.0 for a, p in zip(self.accepted, self.proposed, strict=True)]


def _power(v: Array, alpha: float, out: Array) -> Array:
    """v^(2/alpha) into `out`, by exp and log, which are faster than power in float32."""
    xp = namespace(v)
    if alpha == 1.0:
        return xp.multiply(v, v, out=out)
    if alpha == 2.0:
        out[...] = v
        return out
    xp.log(v, out=out)
    out *= 2 / alpha
    return xp.exp(out, out=out)


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
        self.power = target.power[rows]
        self.phi = [
            target.latents[f"phi{s}"][..., rows, :] if source.alpha < 2 else 2.0
            for s, source in enumerate(target.sources)
        ]
        # Blocks may differ by a row, and a buffer that the generator fills must be contiguous.
        shape = (*buffers[0].shape[:-2], *self.power.shape)
        views = [buffer.reshape(-1)[: math.prod(shape)].reshape(shape) for buffer in buffers]
        n = len(target.sources)
        self._v, self._parts, self._scratch = views[:n], views[n : 2 * n], views[2 * n :]
        self._sigma2 = views[-1]
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
            v, part = self._v[s], self._parts[s]
            xp.matmul(w, h, out=v)
            xp.maximum(v, TINY, out=v)
            _power(v, self.target.sources[s].alpha, part)
        self._apply_phi()
        self._theta = theta

    def _apply_phi(self) -> None:
        self._sigma2.fill(FLOOR)
        for phi, part in zip(self.phi, self._parts, strict=True):
            part *= phi
            self._sigma2 += part

    def move_latents(self, rng: Any, theta: Array) -> Iterator[tuple[int, int, int]]:
        """Move Phi of each source in turn; yield source, accepted and proposed cells of each.

        With q = |X|^2 / sigma^2 and t = sigma'^2 / sigma^2, a proposal is accepted when
        log u < -log t + q (1 - 1/t), that is log(u t) < q (1 - 1/t).
        """
        self._evaluate(theta)
        xp = namespace(theta)
        proposal, ratio, u, rest, spare = self._scratch[:5]
        for s, source in enumerate(self.target.sources):
            if source.alpha == 2:
                continue
            phi, part, sigma2 = self.phi[s], self._parts[s], self._sigma2
            # v^(2/alpha) under the new Phi, against what the other sources contribute.
            rest.fill(FLOOR)
            for r, other in enumerate(self._parts):
                if r != s:
                    rest += other
            positive_stable(rng, source.alpha, proposal, (ratio, u, spare))
            uniform(rng, u)
            xp.divide(part, phi, out=part)
            xp.multiply(part, proposal, out=ratio)
            ratio += rest
            ratio /= sigma2
            u *= ratio
            xp.log(u, out=u)
            xp.divide(-1.0, ratio, out=ratio)
            ratio += 1.0
            ratio *= self.power
            ratio /= sigma2
            accept = xp.less(u, ratio)
            accepted = int(xp.count_nonzero(accept))
            proposal *= accept
            phi *= ~accept
            phi += proposal
            part *= phi
            xp.add(rest, part, out=sigma2)
            yield s, accepted, accept.size

    def _likelihood_factors(self, theta: Array) -> tuple[Array, Array]:
        """Return scale / sigma^2 and |X|^2 / sigma^2 at theta, in scratch buffers."""
        self._evaluate(theta)
        xp = namespace(theta)
        inverse, share = self._scratch[:2]
        xp.divide(float(self.target.blocks), self._sigma2, out=inverse)
        xp.divide(self.power, self._sigma2, out=share)
        return inverse, share

    def _slope(self, s: int, out: Array) -> Array:
        """d(Phi v^(2/alpha)) / dv of source s, into `out`."""
        xp = namespace(out)
        xp.divide(self._parts[s], self._v[s], out=out)
        out *= 2 / self.target.sources[s].alpha
        return out

    def _chain_rule(self, s: int, dv: Array, factors: Any, out: Array) -> None:
        """Add dU/dv_s, pushed through v = W H, to a flat gradient `out`."""
        xp = namespace(out)
        w, h = factors
        basis, gains = self.target.layout[s]
        chains = out.shape[:-1]
        view = out[..., gains].reshape(*chains, *h.shape[-2:])
        view += xp.matmul(xp.swapaxes(w, -1, -2), dv)
        if basis is not None:
            view = out[..., basis].reshape(*chains, -1, w.shape[-1])
            view[..., self.rows, :] += xp.matmul(dv, xp.swapaxes(h, -1, -2))

    def grad(self, theta: Array) -> Array:
        """Gradient of U, shape (*chains, D)."""
        xp = namespace(theta)
        plus, minus = self._prior_parts(theta)
        gradient = plus
        gradient -= minus
        gradient += (1 - self.target.shape) / xp.maximum(theta, TINY)
        inverse, share = self._likelihood_factors(theta)
        xp.subtract(1.0, share, out=share)
        inverse *= share
        for s, factors in enumerate(self._factors(theta)):
            slope = self._slope(s, share)
            slope *= inverse
            self._chain_rule(s, slope, factors, gradient)
        return gradient

    def parts(self, theta: Array) -> Parts:
        """Gradient of U in two positive parts, each of shape (*chains, D)."""
        plus, minus = self._prior_parts(theta)
        inverse, share = self._likelihood_factors(theta)
        slope = self._scratch[2]
        for s, factors in enumerate(self._factors(theta)):
            self._slope(s, slope)
            slope *= inverse
            self._chain_rule(s, slope, factors, plus)
            slope *= share
            self._chain_rule(s, slope, factors, minus)
        return Parts(plus, minus, self.target.shape, self.target.exponent)

    def row_parts(self, theta: Array, source: int) -> tuple[Array, Array]:
        """See `AlphaMF.row_parts`; of this block's rows."""
        inverse, share = self._likelihood_factors(theta)
        inverse *= self._parts[source]
        plus = inverse.sum(-1)
        inverse *= share
        scale = 2 / self.target.sources[source].alpha
        return scale * plus, scale * inverse.sum(-1)

    def gain(self, theta: Array, source: int) -> Array:
        """See `AlphaMF.gain`; of this block's rows."""
        self._evaluate(theta)
        return self._parts[source] / self._sigma2

    def value(self, theta: Array) -> Array:
        """U up to a constant, shape (*chains,)."""
        xp = namespace(theta)
        self._evaluate(theta)
        cells = xp.log(self._sigma2) + self.power / self._sigma2
        total = self.target.blocks * cells.sum((-2, -1))
        for _, prior, block in self.target.priors():
            total = total + prior.potential(xp.maximum(theta[..., block], TINY)).sum(-1)
        return total

    def _prior_parts(self, theta: Array) -> tuple[Array, Array]:
        xp = namespace(theta)
        plus, minus = xp.zeros_like(theta), xp.zeros_like(theta)
        for _, prior, block in self.target.priors():
            prior.add_parts(
                xp.maximum(theta[..., block], TINY), plus[..., block], minus[..., block]
            )
        return plus, minus
