"""The potential of alpha-MF: U of a block of rows at fixed Phi, its gradient, and the Phi moves.

Everything is computed tile by tile: W H, then the steps of `cells`, then the gradient through v = W
H, while the tile is in the cache.
"""

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from alphamf.factorization.cells import LARGEST, TINY, CellOutput, Cells
from alphamf.factorization.priors import Model, add_gradient
from alphamf.inference.protocols import Parts
from alphamf.tools.arrays import Array, namespace

CELLS = 80_000
"""Maximum number of cells of a tile on a CPU, except for longer rows: six arrays of this size take
two megabytes in float32."""


class Tile(NamedTuple):
    """Some cells of the matrix, which are processed together."""

    # Place among the chains, and among the clips if the tile is of one clip: an index of the
    # leading axes of arrays with one axis of chains.
    where: tuple[Any, ...]
    clip: tuple[int, ...]  # Place among the clips: an index of the leading axes of the power
    rows: slice  # Rows of the matrix


def tiles(power: Array, chains: int, rows: slice) -> Iterator[Tile]:
    """Yield the tiles of some rows of all chains: whole chains, or rows of one clip.

    `power`: |X|^2, shape (*clips, rows, columns).
    """
    *clips, height, columns = power.shape
    chosen = range(height)[rows]
    of_chain = prod(clips) * len(chosen) * columns
    on_host = isinstance(power, np.ndarray)
    if not on_host or of_chain <= CELLS:
        step = max(1, CELLS // of_chain) if on_host else chains
        for first in range(0, chains, step):
            yield Tile((slice(first, first + step),), (), rows)
        return
    step = max(1, CELLS // columns)
    for chain in range(chains):
        for clip in np.ndindex(*clips):
            for first in range(0, len(chosen), step):
                part = chosen[first : first + step]
                yield Tile((chain, *clip), clip, slice(part.start, part.stop, part.step))


class Workspace(dict[tuple[str, tuple[int, ...], Any], Array]):
    """Buffers by name, shape and dtype, allocated at their first use and reused by each tile."""

    def __init__(self, xp: Any) -> None:
        super().__init__()
        self._xp = xp

    def __missing__(self, key: tuple[str, tuple[int, ...], Any]) -> Array:
        made: Array = self._xp.empty(*key[1:])
        self[key] = made
        return made


class Notes:
    """Gain and row sums (`row_parts`) of the first source at the last draw's theta and Phi.

    A chain's step is a draw of Phi given theta, then a move of theta given Phi, so values between
    the two belong to the posterior like values after them. The requested values are stored by
    `AlphaMFTarget.draw_parts` if it covers all rows; after other draws they are None.
    """

    def __init__(self) -> None:
        self.request()
        self.gain: Array | None = None
        self.rows: Array | None = None

    def request(self, *, gain: bool = False, rows: bool = False) -> None:
        """Choose the values that the next draws store."""
        self._wants_gain, self._wants_rows = gain, rows

    def forget(self) -> None:
        """Clear all stored values."""
        self.gain = self.rows = None

    def start(self, theta: Array, power: Array) -> None:
        """Allocate the requested arrays and clear the others.

        `theta`: shape (*chains, *clips, D). `power`: shape (*clips, I, J).
        """
        xp, lead = namespace(theta), theta.shape[:-1]
        self.forget()
        if self._wants_gain:
            self.gain = xp.empty((*lead, *power.shape[-2:]), theta.dtype)
        if self._wants_rows:
            self.rows = xp.empty((2, *lead, power.shape[-2]), theta.dtype)
        axes = power.ndim - 2
        self._gain: Any = None if self.gain is None else _one_axis(self.gain, 0, axes + 2)
        self._rows: Any = None if self.rows is None else _one_axis(self.rows, 1, axes + 1)

    def add(self, tile: Tile, sources: Sequence[Cells]) -> None:
        """Store the values of a tile, given its cells after `CellOutput.SLOPES` at a scale of 1."""
        if self._gain is None and self._rows is None:
            return
        own = sources[0]
        slopes: Any = own.out
        if self._rows is not None:
            sums = namespace(own.v).einsum("k...j,...j->k...", slopes, own.v)
            self._rows[(slice(None), *tile.where)][..., tile.rows] = sums
        if self._gain is not None:
            gain = slopes[0] * own.v
            gain *= own.alpha / 2
            self._gain[tile.where][..., tile.rows, :] = gain


def _one_axis(array: Array, first: int, last: int) -> Array:
    """Return a view with one axis for all between the first `first` and the last `last` axes."""
    kept = array.ndim - last
    return array.reshape(*array.shape[:first], -1, *array.shape[kept:])


OUTPUTS = {
    CellOutput.MOVE: 0,
    CellOutput.SLOPES: 2,
    CellOutput.SLOPE: 1,
    CellOutput.GAIN: 1,
    CellOutput.VARIANCE: 1,
}
"""Number of buffers that a source needs for each kind of output."""


class AlphaMFPotential:
    """U of some rows at fixed Phi, with their likelihood times the number of blocks."""

    def __init__(
        self,
        model: Model,
        latents: dict[str, Array],
        rows: slice,
        workspace: Workspace,
    ) -> None:
        self.model = model
        self.rows = rows
        self._latents = latents
        self._workspace = workspace

    @property
    def phi(self) -> list[Array | float]:
        """Phi of these rows: a view of the latents of each source, or the constant 2."""
        return [
            self._latents[f"phi{s}"][..., self.rows, :] if source.alpha < 2 else 2.0
            for s, source in enumerate(self.model.sources)
        ]

    def _chains(self, array: Array, axes: int) -> Array:
        """Return a view with a single axis of chains before the clips and the last `axes` axes."""
        kept = array.ndim - axes - (self.model.power.ndim - 2)
        return array.reshape(-1, *array.shape[kept:])

    def _tiles(
        self,
        theta: Array,
        want: CellOutput,
        asked: Sequence[int] | None = None,
        *,
        states: Sequence[Any] | None = None,
        counts: list[Any] | None = None,
    ) -> Iterator[tuple[Tile, list[tuple[Array, Array]], list[Cells], Array]]:
        """Evaluate tile by tile; with `states`, move Phi; yield tile, factors, cells and power."""
        model, buffers, xp = self.model, self._workspace, self.model.xp
        flat = self._chains(theta, 1)
        every = model.unpack(flat)
        phis = [
            self._chains(self._latents[f"phi{s}"], 2) if source.alpha < 2 else None
            for s, source in enumerate(model.sources)
        ]
        for tile in tiles(model.power, len(flat), self.rows):
            power = xp.ascontiguousarray(model.power[tile.clip][..., tile.rows, :])
            factors, cells = [], []
            for s, (source, (w, h)) in enumerate(zip(model.sources, every, strict=True)):
                if source.basis is None:
                    w = w[tile.where]
                elif w.ndim > 2:  # a fixed W has no axis of chains, and may have one of clips
                    w = w[tile.clip]
                w, h = w[..., tile.rows, :], h[tile.where]
                shape = (*h.shape[:-2], w.shape[-2], h.shape[-1])
                v = buffers[f"v{s}", shape, theta.dtype]
                xp.matmul(w, h, out=v)
                phi, latent = None, phis[s]
                if latent is not None:
                    phi = xp.ascontiguousarray(latent[tile.where][..., tile.rows, :])
                out: Any = None
                if OUTPUTS[want] and (asked is None or s in asked):
                    out = buffers[f"out{s}", (OUTPUTS[want], *shape), theta.dtype]
                factors.append((w, h))
                cells.append(Cells(source.alpha, v, phi, out))
            accepted = model.loops.evaluate(
                want, power, cells, scale=float(model.blocks), states=states
            )
            for s, latent in enumerate(phis):
                if states is not None and latent is not None:
                    if counts is not None:
                        counts[s] = counts[s] + accepted[s]
                    if model.blocks > 1:
                        latent[tile.where][..., tile.rows, :] = cells[s].phi
            yield tile, factors, cells, power

    def move_latents(
        self,
        rng: Any,
        theta: Array,
        want: CellOutput = CellOutput.MOVE,
        notes: Notes | None = None,
    ) -> tuple[list[tuple[Any, int]], Array]:
        """Move Phi; return (accepted, proposed) per source, and sums of slopes at the new Phi."""
        alphas = [source.alpha for source in self.model.sources]
        states = self.model.loops.states(rng, alphas)
        counts: list[Any] = [0] * len(alphas)
        sums = self._sums(theta, want, notes, states=states, counts=counts)
        rows = len(range(self.model.power.shape[-2])[self.rows])
        size = theta[..., 0].size * rows * self.model.power.shape[-1]
        moves = [
            (count, size if alpha < 2 else 0) for count, alpha in zip(counts, alphas, strict=True)
        ]
        return moves, sums

    def _sums(
        self, theta: Array, want: CellOutput, notes: Notes | None = None, **moves: Any
    ) -> Array:
        """Return sums of the likelihood's slopes, one per buffer; shape (0 to 2, *theta.shape)."""
        xp = self.model.xp
        sums: Array = xp.zeros((OUTPUTS[want], *theta.shape), theta.dtype)
        flat = sums.reshape(len(sums), *self._chains(theta, 1).shape)
        if notes is not None:
            notes.start(theta, self.model.power)
        for tile, factors, cells, _ in self._tiles(theta, want, **moves):
            if want == CellOutput.MOVE:
                continue
            if notes is not None:
                notes.add(tile, cells)
            self._push(flat[(slice(None), *tile.where)], tile, factors, cells)
        return sums

    def _push(
        self,
        place: Array,
        tile: Tile,
        factors: Sequence[tuple[Array, Array]],
        cells: Sequence[Cells],
    ) -> None:
        """Add the contribution of a tile to the gradient sums of every H and every free W."""
        xp = self.model.xp
        for s, ((basis, gains), (w, h)) in enumerate(zip(self.model.layout, factors, strict=True)):
            slopes: Any = cells[s].out
            if gains not in self.model.still:
                view = place[..., gains].reshape(*place.shape[:-1], *h.shape[-2:])
                product = self._workspace[f"product{s}", view.shape, place.dtype]
                view += xp.matmul(xp.swapaxes(w, -1, -2), slopes, out=product)
            if basis is not None and basis not in self.model.still:
                view = place[..., basis].reshape(*place.shape[:-1], -1, w.shape[-1])
                view[..., tile.rows, :] = xp.matmul(slopes, xp.swapaxes(h, -1, -2))

    def grad(self, theta: Array) -> Array:
        """Return the gradient of U, shape (*chains, *clips, D)."""
        return self.gradient(theta, self._sums(theta, CellOutput.SLOPE))

    def gradient(self, theta: Array, sums: Array) -> Array:
        """Add the priors' part to `sums` of `CellOutput.SLOPE`, in place; return the gradient."""
        gradient: Array = sums[0]
        for _, prior, block in self.model.priors():
            add_gradient(prior, theta[..., block], gradient[..., block])
        return gradient

    def parts(self, theta: Array) -> Parts:
        """Return the gradient of U as `Parts`; plus and minus have shape (*chains, *clips, D)."""
        return self.gradient_parts(theta, self._sums(theta, CellOutput.SLOPES))

    def gradient_parts(self, theta: Array, sums: Array) -> Parts:
        """Add the priors' slopes to `sums` of `CellOutput.SLOPES`, in place; return the parts."""
        plus, minus = sums
        for _, prior, block in self.model.priors():
            for part, more in zip((plus, minus), prior.slopes(theta[..., block]), strict=True):
                part[..., block] += more
        return Parts(plus, minus, self.model.shape, self.model.exponent)

    def row_parts(self, theta: Array, source: int) -> tuple[Array, Array]:
        """Return what `AlphaMFTarget.row_parts` returns, but for the rows of this block alone."""
        xp = self.model.xp
        rows = xp.zeros((2, *theta.shape[:-1], self.model.power.shape[-2]), theta.dtype)
        flat = rows.reshape(2, *self._chains(rows[0], 1).shape)
        for tile, _, cells, _ in self._tiles(theta, CellOutput.SLOPES, [source]):
            slopes: Any = cells[source].out
            slopes *= cells[source].v
            flat[(slice(None), *tile.where)][..., tile.rows] = slopes.sum(-1)
        return rows[0][..., self.rows], rows[1][..., self.rows]

    def _cells(self, theta: Array) -> tuple[Array, Array]:
        """Return a new array for the rows' cells, and a view of it with a single axis of chains."""
        rows = len(range(self.model.power.shape[-2])[self.rows])
        shape = (*theta.shape[:-1], rows, self.model.power.shape[-1])
        found: Array = self.model.xp.empty(shape, theta.dtype)
        return found, self._chains(found, 2)

    def _within(self, tile: Tile) -> slice:
        """Return the rows of a tile as indices into this potential's rows."""
        chosen = range(self.model.power.shape[-2])[self.rows]
        part = range(self.model.power.shape[-2])[tile.rows]
        first = chosen.index(part[0])
        return slice(first, first + len(part))

    def gain(self, theta: Array, source: int) -> Array:
        """Return the Wiener gain of a source in the rows of this block, as `AlphaMFTarget.gain`."""
        found, flat = self._cells(theta)
        for tile, _, cells, _ in self._tiles(theta, CellOutput.GAIN, [source]):
            out: Any = cells[source].out
            flat[tile.where][..., self._within(tile), :] = out[0]
        return found

    def variance(self, theta: Array, source: int) -> Array:
        """Return a source's variance in the rows of this block, as `AlphaMFTarget.variance`."""
        xp = self.model.xp
        alpha = self.model.sources[source].alpha
        most = LARGEST ** (alpha / 2)  # as in the cells: beyond it, v^4 would overflow float32
        w, h = self.model.unpack(theta)[source]
        v = xp.matmul(w[..., self.rows, :], h)
        xp.maximum(v, TINY, out=v)
        return xp.minimum(v, most, out=v) ** (2 / alpha)

    def value(self, theta: Array) -> Array:
        """Return U up to a constant, shape (*chains, *clips)."""
        xp = self.model.xp
        total: Array = xp.zeros(theta.shape[:-1], theta.dtype)
        flat = total.reshape(self._chains(theta, 1).shape[:-1])
        for tile, _, cells, power in self._tiles(theta, CellOutput.VARIANCE, [0]):
            out: Any = cells[0].out
            sigma2 = out[0]
            flat[tile.where] += (xp.log(sigma2) + power / sigma2).sum((-2, -1))
        total *= self.model.blocks
        for _, prior, block in self.model.priors():
            total = total + prior.potential(xp.maximum(theta[..., block], TINY)).sum(-1)
        return total
