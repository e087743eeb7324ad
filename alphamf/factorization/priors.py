r"""Priors of positive factors: flat, Gamma and generalised Gamma.

Each prior returns -log p up to a constant, and the positive parts `plus` and `minus` of its
gradient, which is (1 - shape) / x + plus - minus, as in ``protocols.Parts``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol, runtime_checkable

from alphamf.errors import AlphaMFError
from alphamf.factorization import cells, compiled
from alphamf.factorization.cells import TINY
from alphamf.factorization.stable import check_alpha
from alphamf.tools.arrays import LOG_LIMIT, Array, namespace


@runtime_checkable
class Prior(Protocol):
    """The density of one positive entry."""

    @property
    def shape(self) -> float:
        """One plus the exponent of x in the density."""
        ...

    def potential(self, x: Array) -> Array:
        """Return -log p(x) up to a constant, entry by entry."""
        ...

    def slopes(self, x: Array) -> tuple[Array | float, Array | float]:
        """Return the positive parts of the gradient (plus, minus), besides (1 - shape) / x."""
        ...


def add_gradient(prior: Prior, x: Array, out: Array) -> None:
    """Add the whole gradient of a prior's potential to `out`."""
    plus, minus = prior.slopes(x)
    out += plus
    out -= minus
    if prior.shape != 1:
        out += (1 - prior.shape) / namespace(x).maximum(x, TINY)


@dataclass(frozen=True)
class Flat:
    """The flat prior: p(x) is constant on x > 0 (improper).

    Examples
    --------
    >>> import numpy as np
    >>> Flat().potential(np.array([0.5, 2.0]))
    array([0., 0.])
    """

    shape: float = 1.0

    def potential(self, x: Array) -> Array:
        """Return zeros of the shape of x."""
        return namespace(x).zeros_like(x)

    def slopes(self, x: Array) -> tuple[float, float]:
        """Return 0 for both parts of the gradient."""
        return 0.0, 0.0


@dataclass(frozen=True)
class Gamma:
    r"""p(x) proportional to :math:`x^{a-1} e^{-bx}`: shape a, rate b; a below one favours zeros.

    Examples
    --------
    >>> import numpy as np
    >>> Gamma(1.0, 20.0).potential(np.array([0.5, 2.0]))
    array([10., 40.])
    """

    shape: float
    rate: float

    def potential(self, x: Array) -> Array:
        r"""Return (1 - a) log x + b x, entry by entry."""
        return (1 - self.shape) * namespace(x).log(x) + self.rate * x

    def slopes(self, x: Array) -> tuple[float, float]:
        """Return the rate as the positive part `plus`, and 0 as `minus`."""
        return self.rate, 0.0


@dataclass(frozen=True)
class GeneralizedGamma:
    r"""GG(a, b, c): p(x) proportional to :math:`x^{ac-1} e^{-(x/b)^c}`.

    Simsekli et al. take c = -2/alpha, which keeps the entries away from zero.

    Attributes
    ----------
    a, b, c
        Shape, scale and power.

    References
    ----------
    Stacy (1962); Simsekli et al., ICML 2016, eq. 15.

    Examples
    --------
    >>> GeneralizedGamma(a=2.0, b=1.0, c=-1.5).shape
    -3.0
    """

    a: float
    b: float
    c: float

    @property
    def shape(self) -> float:
        """The exponent of x in the density plus one: a c."""
        return self.a * self.c

    def potential(self, x: Array) -> Array:
        r"""Return (1 - ac) log x + (x/b)^c, entry by entry."""
        return (1 - self.shape) * namespace(x).log(x) + (x / self.b) ** self.c

    def slopes(self, x: Array) -> tuple[Array | float, Array | float]:
        """Return |c| (x/b)^c / x, capped at exp(LOG_LIMIT): as plus if c > 0, as minus if c < 0."""
        xp = namespace(x)
        x = xp.maximum(x, TINY)
        log_slope = self.c * xp.log(x / self.b) + xp.log(abs(self.c) / x)
        slope: Array = xp.exp(xp.minimum(log_slope, LOG_LIMIT))
        return (slope, 0.0) if self.c > 0 else (0.0, slope)


@dataclass(frozen=True)
class Source:
    """One source of the mixture.

    Attributes
    ----------
    alpha
        Index of its stable law, from 0.5 to 2.
    rank
        K, the number of columns of W.
    basis
        W held fixed, shape (I, K), or (*clips, I, K) with one for each clip; None to sample W.
    prior_basis, prior_gains
        Priors of the entries of W and of H.
    level
        Scale of the starting values of H, which are uniform on ``level * [0.1, 1.1]``; a free W
        starts from columns that sum to one.

    Examples
    --------
    >>> speech = Source(alpha=1.2, rank=60)
    >>> speech.prior_gains
    Flat(shape=1.0)
    """

    alpha: float
    rank: int
    basis: Array | None = None
    prior_basis: Prior = Flat()
    prior_gains: Prior = Flat()
    level: float = 0.1


class Model:
    """The parts of the model that are constant during a chain.

    `power`: |X|^2, shape (I, J) or (*clips, I, J). `shape`, `exponent`: `Parts.shape` and
    `Parts.exponent`, shape (D,).
    """

    size: int  # D, the number of free entries of W and H of a clip

    def __init__(self, power: Array, sources: Sequence[Source], blocks: int) -> None:
        _check(power, sources, blocks)
        self.xp: Any = namespace(power)
        self.power: Array = self.xp.ascontiguousarray(power)
        self.sources: tuple[Source, ...] = tuple(sources)
        self.blocks = blocks
        self.loops: ModuleType = compiled if compiled.supports(power, len(sources)) else cells
        rows, columns = power.shape[-2:]
        self.layout: list[tuple[slice | None, slice]] = []
        self.size = 0
        self.still: Sequence[slice] = ()  # blocks of `layout` whose gradient is left out
        for source in self.sources:
            basis = self._extend(rows * source.rank) if source.basis is None else None
            self.layout.append((basis, self._extend(source.rank * columns)))
        self.shape: Any = self.xp.empty(self.size, power.dtype)
        self.exponent: Any = self.xp.empty(self.size, power.dtype)
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
        """Yield the source, prior and slice of each block of theta: each free W and each H."""
        for source, (basis, gains) in zip(self.sources, self.layout, strict=True):
            if basis is not None:
                yield source, source.prior_basis, basis
            yield source, source.prior_gains, gains

    def unpack(self, theta: Array) -> list[tuple[Array, Array]]:
        """Return (W, H) of each source as views of theta; a fixed W is returned unchanged.

        A free W has shape (*chains, *clips, I, K), and H has shape (*chains, *clips, K, J).
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


def _check(power: Array, sources: Sequence[Source], blocks: int) -> None:
    if power.ndim < 2 or not power.size:
        raise AlphaMFError(f"power must be a non-empty matrix, not of shape {power.shape}")
    *clips, rows, _ = power.shape
    if not 1 <= blocks <= rows:
        raise AlphaMFError(f"blocks must be from 1 to {rows}, not {blocks}")
    for s, source in enumerate(sources):
        check_alpha(source.alpha, f"alpha of source {s}")
        if source.rank < 1:
            raise AlphaMFError(f"rank of source {s} must be at least 1, not {source.rank}")
        one = (rows, source.rank)
        if source.basis is not None and source.basis.shape not in (one, (*clips, *one)):
            raise AlphaMFError(f"basis of source {s} has shape {source.basis.shape}, not {one}")
