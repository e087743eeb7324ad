"""The potential of alpha-MF: U of a block of rows at fixed Phi, its gradient, and Phi's moves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from alphamf.factorization.cells import FLOOR, LARGEST, TINY
from alphamf.factorization.model import Model
from alphamf.inference.protocols import Parts
from alphamf.tools.arrays import Array, namespace


class AlphaMFPotential:
    """U of one block of rows at fixed Phi, scaled up to the whole matrix.

    Its buffers belong to the target, so a potential lives until the target's next draw.

    Parameters
    ----------
    model
        Data, sources and layout of theta.
    latents
        Phi of the whole matrix, as `AlphaMF.latents`.
    rows
        The rows that it reads.
    buffers
        Arrays like a Phi of the whole matrix, as `AlphaMF.start` makes them.

    Attributes
    ----------
    phi
        Phi of these rows: a view of the latents per source, or the constant 2.
    """

    def __init__(
        self, model: Model, latents: dict[str, Array], rows: slice, buffers: list[Array]
    ) -> None:
        self.model = model
        self.rows = rows
        self._latents = latents
        xp = namespace(model.power)
        self.power = xp.ascontiguousarray(model.power[..., rows, :])
        self.phi = [
            xp.ascontiguousarray(latents[f"phi{s}"][..., rows, :]) if source.alpha < 2 else 2.0
            for s, source in enumerate(model.sources)
        ]
        # Blocks may differ by a row, and the loops want contiguous buffers.
        shape = (*buffers[0].shape[:-2], *self.power.shape[-2:])
        views = [buffer.reshape(-1)[: math.prod(shape)].reshape(shape) for buffer in buffers]
        n = len(model.sources)
        self._v, self._parts, self._scratch = views[:n], views[n : 2 * n], views[2 * n : -2]
        self._rest, self._sigma2 = views[-2:]
        self._theta: Array | None = None

    def _factors(self, theta: Array) -> list[tuple[Array, Array]]:
        return [(w[..., self.rows, :], h) for w, h in self.model.unpack(theta)]

    def _evaluate(self, theta: Array) -> None:
        """Compute v_s and Phi_s v_s^(2/alpha_s) of every source, and sigma^2, at theta.

        A theta object seen last is taken to be unchanged: samplers are pure, so it is.
        """
        if theta is self._theta:
            return
        xp = namespace(theta)
        for s, (w, h) in enumerate(self._factors(theta)):
            xp.matmul(w, h, out=self._v[s])
            alpha = self.model.sources[s].alpha
            self.model.loops.weigh(self._v[s], alpha, self.phi[s], self._parts[s])
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
        for s, source in enumerate(self.model.sources):
            if source.alpha == 2:
                continue
            phi, part = self.phi[s], self._parts[s]
            self._add_parts(self._rest, but=s)
            accepted = self.model.loops.move(
                rng, source.alpha, self.power, phi, part, self._rest, self._sigma2, self._scratch
            )
            if self.model.blocks > 1:
                self._latents[f"phi{s}"][..., self.rows, :] = phi
            yield s, accepted, part.size

    def _slopes(self, function: Any, s: int) -> Any:
        """Return what a function of `loops` makes of the likelihood's slope by v of a source."""
        return function(
            self.model.sources[s].alpha,
            float(self.model.blocks),
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
        basis, gains = self.model.layout[s]
        chains = out.shape[:-1]
        view = out[..., gains].reshape(*chains, *h.shape[-2:])
        view[...] = xp.matmul(xp.swapaxes(w, -1, -2), dv)
        if basis is not None:
            view = out[..., basis].reshape(*chains, -1, w.shape[-1])
            if self.model.blocks > 1:
                view[...] = 0
            view[..., self.rows, :] = xp.matmul(dv, xp.swapaxes(h, -1, -2))

    def grad(self, theta: Array) -> Array:
        """Gradient of U, shape (*chains, *clips, D)."""
        self._evaluate(theta)
        gradient: Array = namespace(theta).empty_like(theta)
        for s, factors in enumerate(self._factors(theta)):
            self._chain_rule(s, self._slopes(self.model.loops.slope, s), factors, gradient)
        for _, prior, block in self.model.priors():
            prior.add_gradient(theta[..., block], gradient[..., block])
        return gradient

    def parts(self, theta: Array) -> Parts:
        """Gradient of U in two positive parts, each of shape (*chains, *clips, D)."""
        self._evaluate(theta)
        xp = namespace(theta)
        plus, minus = xp.empty_like(theta), xp.empty_like(theta)
        for s, factors in enumerate(self._factors(theta)):
            for slope, total in zip(
                self._slopes(self.model.loops.slopes, s), (plus, minus), strict=True
            ):
                self._chain_rule(s, slope, factors, total)
        for _, prior, block in self.model.priors():
            prior.add_parts(theta[..., block], plus[..., block], minus[..., block])
        return Parts(plus, minus, self.model.shape, self.model.exponent)

    def row_parts(self, theta: Array, source: int) -> tuple[Array, Array]:
        """Positive parts by the log of a gain per row: see `AlphaMF.row_parts`."""
        self._evaluate(theta)
        plus, minus = self._slopes(self.model.loops.slopes, source)
        plus *= self._v[source]
        minus *= self._v[source]
        return plus.sum(-1), minus.sum(-1)

    def gain(self, theta: Array, source: int) -> Array:
        """Wiener gain of a source in the rows: see `AlphaMF.gain`."""
        self._evaluate(theta)
        return self._parts[source] / self._sigma2

    def variance(self, theta: Array, source: int) -> Array:
        """See `AlphaMF.variance`; of this block's rows."""
        self._evaluate(theta)
        alpha = self.model.sources[source].alpha
        most = LARGEST ** (alpha / 2)  # as in the cells: beyond it, v^4 leaves single precision
        variance: Array = namespace(theta).minimum(self._v[source], most) ** (2 / alpha)
        return variance

    def value(self, theta: Array) -> Array:
        """U up to a constant, shape (*chains, *clips)."""
        xp = namespace(theta)
        self._evaluate(theta)
        cells = xp.log(self._sigma2) + self.power / self._sigma2
        total: Array = self.model.blocks * cells.sum((-2, -1))
        for _, prior, block in self.model.priors():
            total = total + prior.potential(xp.maximum(theta[..., block], TINY)).sum(-1)
        return total
