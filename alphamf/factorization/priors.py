r"""Priors of positive factors: flat, Gamma and generalised Gamma.

Each prior returns -log p up to a constant, and its gradient in the form of ``protocols.Parts``:
(1 - shape) / x, plus a positive part, minus a positive part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from alphamf.factorization.cells import TINY
from alphamf.tools.arrays import LOG_LIMIT, Array, namespace


@runtime_checkable
class Prior(Protocol):
    """The density of one positive entry."""

    @property
    def shape(self) -> float:
        """One plus the exponent of x in the density."""
        ...

    def potential(self, x: Array) -> Array:
        """-log p(x) up to a constant, entry by entry."""
        ...

    def add_parts(self, x: Array, plus: Array, minus: Array) -> None:
        """Add the gradient beyond (1 - shape) / x to its two positive parts.

        `plus`, `minus`: positive parts of the gradient, of the shape of x, changed in place.
        """
        ...

    def add_gradient(self, x: Array, out: Array) -> None:
        """Add the whole gradient of the potential to `out`."""
        ...


@dataclass(frozen=True)
class Flat:
    """p(x) constant on x > 0 (improper).

    Examples
    --------
    >>> import numpy as np
    >>> Flat().potential(np.array([0.5, 2.0]))
    array([0., 0.])
    """

    shape: float = 1.0

    def potential(self, x: Array) -> Array:
        """0."""
        zeros: Array = namespace(x).zeros_like(x)
        return zeros

    def add_parts(self, x: Array, plus: Array, minus: Array) -> None:
        """Add nothing: a constant has no gradient.

        `plus`, `minus`: positive parts of the gradient, of the shape of x, changed in place.
        """

    def add_gradient(self, x: Array, out: Array) -> None:
        """Add nothing."""


@dataclass(frozen=True)
class Gamma:
    r"""p(x) proportional to :math:`x^{a-1} e^{-bx}`; a shape below one favours empty entries.

    Examples
    --------
    >>> import numpy as np
    >>> Gamma(1.0, 20.0).potential(np.array([0.5, 2.0]))
    array([10., 40.])
    """

    shape: float
    rate: float

    def potential(self, x: Array) -> Array:
        r"""(1 - a) log x + b x."""
        potential: Array = (1 - self.shape) * namespace(x).log(x) + self.rate * x
        return potential

    def add_parts(self, x: Array, plus: Array, minus: Array) -> None:
        """Add the rate to the positive part.

        `plus`, `minus`: positive parts of the gradient, of the shape of x, changed in place.
        """
        plus += self.rate

    def add_gradient(self, x: Array, out: Array) -> None:
        """Add (1 - a) / x + b."""
        out += self.rate
        _add_inverse(1 - self.shape, x, out)


@dataclass(frozen=True)
class GeneralizedGamma:
    r"""GG(a, b, c): p(x) proportional to :math:`x^{ac-1} e^{-(x/b)^c}`.

    The paper's prior has c = -2/alpha, which keeps the entries away from zero.

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
        r"""(1 - ac) log x + (x/b)^c."""
        potential: Array = (1 - self.shape) * namespace(x).log(x) + (x / self.b) ** self.c
        return potential

    def add_parts(self, x: Array, plus: Array, minus: Array) -> None:
        """Add c (x/b)^c / x to the part that has its sign.

        `plus`, `minus`: positive parts of the gradient, of the shape of x, changed in place.
        """
        if self.c > 0:
            plus += self._slope(x)
        else:
            minus += self._slope(x)

    def add_gradient(self, x: Array, out: Array) -> None:
        """Add (1 - ac) / x + c (x/b)^c / x."""
        if self.c > 0:
            out += self._slope(x)
        else:
            out -= self._slope(x)
        _add_inverse(1 - self.shape, x, out)

    def _slope(self, x: Array) -> Array:
        """|c| (x/b)^c / x, capped short of float32's limit."""
        xp = namespace(x)
        x = xp.maximum(x, TINY)
        log_slope = self.c * xp.log(x / self.b) + xp.log(abs(self.c) / x)
        slope: Array = xp.exp(xp.minimum(log_slope, LOG_LIMIT))
        return slope


def _add_inverse(factor: float, x: Array, out: Array) -> None:
    if factor:
        out += factor / namespace(x).maximum(x, TINY)
