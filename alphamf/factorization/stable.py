r"""Draws from the stable laws behind the model.

They are the laws of a positive Phi of index h = alpha / 2 and a symmetric complex X of index alpha,

.. math:: E e^{-t \Phi} = e^{-(2t)^{\alpha/2}}, \qquad
   X = \sqrt{\Phi / 2}\,(N_1 + i N_2), \quad E e^{i \Re(\bar z X)} = e^{-(|z|^2/2)^{\alpha/2}}.

X given Phi is a complex Gaussian whose *whole* variance is E|X|^2 = Phi (half in each component);
at alpha = 2, Phi is the constant 2.
"""

from typing import Any

import numpy as np

from alphamf.inference.random import uniform
from alphamf.tools.arguments import real_number
from alphamf.tools.arrays import LOG_LIMIT, Array, namespace

ALPHAS = (0.5, 2.0)
"""Minimum and maximum index of the stable laws of the model."""


def check_alpha(alpha: float, name: str = "alpha") -> float:
    """Return `alpha`, or raise an AlphaMFError if the model has no stable law with this index."""
    real_number(name, alpha, *ALPHAS)
    return alpha


def positive_stable(rng: Any, alpha: float, out: Array) -> Array:
    r"""Fill `out` with positive (alpha/2)-stable draws by Kanter's method, and return it.

    .. math:: \Phi = 2 \frac{\sin(hU)}{\sin(U)^{1/h}}
       \left(\frac{\sin((1-h)U)}{E}\right)^{(1-h)/h},
       \quad h = \alpha/2,\ U \sim \mathrm{Unif}(0, \pi),\ E \sim \mathrm{Exp}(1).

    The HAMCMC paper (eq. 16) prints the scale as ``2 (cos(pi alpha) / 4)^(2/alpha)``; this
    draws with ``2 cos(pi alpha / 4)^(2/alpha)``, for which E exp(-t Phi) = exp(-(2t)^(alpha/2))
    (``tests/factorization/test_stable.py``). Draws are capped at ``exp(LOG_LIMIT)``, which cuts off
    a probability of 3e-7 at alpha = 0.5 and of 7e-14 at alpha = 1. Phi is 2 at alpha = 2.

    Parameters
    ----------
    rng
        Generator of `out`'s array module.
    alpha
        Index of the symmetric law, from 0.5 to 2; any other raises an AlphaMFError.
    out
        Buffer that receives the draws, any shape.

    References
    ----------
    Kanter, Annals of Probability 3 (1975); Simsekli et al., ICML 2016, eq. 16.

    Examples
    --------
    >>> import numpy as np
    >>> phi = positive_stable(np.random.default_rng(0), 1.2, np.empty(100_000))
    >>> float(np.exp(-phi).mean().round(2))  # exp(-2^(alpha / 2)) = 0.22
    0.22
    """
    xp = namespace(out)
    h = check_alpha(alpha) / 2
    if h == 1.0:
        out.fill(2.0)
        return out
    u, e, rest = (xp.empty_like(out) for _ in range(3))
    uniform(rng, u)
    xp.log(uniform(rng, e), out=e)
    u *= np.pi
    if h == 0.5:
        _levy(u, e, out)
    else:
        _kanter(h, u, e, rest, out)
    xp.minimum(out, np.exp(LOG_LIMIT), out=out)
    return out


def _levy(u: Array, e: Array, out: Array) -> None:
    """Put 1 / (2 E cos(U/2)^2), Kanter's formula at h = 1/2, into `out`; `e` is -E."""
    xp = namespace(out)
    u *= 0.5
    xp.cos(u, out=out)
    out *= out
    out *= e
    xp.divide(-0.5, out, out=out)


def _kanter(h: float, u: Array, e: Array, rest: Array, out: Array) -> None:
    """Put 2 sin(hU) / sin(U) (sin((1-h)U) / (E sin(U)))^((1-h)/h) into `out`; `e` is -E."""
    xp = namespace(out)
    xp.sin(u, out=out)
    e *= out
    xp.multiply(u, h - 1, out=rest)
    xp.sin(rest, out=rest)
    rest /= e
    xp.log(rest, out=rest)
    rest *= (1 - h) / h
    xp.minimum(rest, LOG_LIMIT, out=rest)
    xp.exp(rest, out=rest)
    u *= h
    xp.sin(u, out=u)
    u *= 2.0
    u /= out
    xp.multiply(u, rest, out=out)


def symmetric_stable(
    rng: Any, alpha: float, shape: tuple[int, ...], dtype: Any = np.float32, xp: Any = np
) -> Array:
    """Draw isotropic complex symmetric alpha-stable variables of unit dispersion.

    Real and imaginary part have one positive stable variable in common, so that they are not
    independent below alpha = 2. Multiply by ``v ** (1 / alpha)`` for dispersion v.

    Parameters
    ----------
    rng
        Generator of `xp`.
    alpha
        Index of the law, from 0.5 to 2; any other raises an AlphaMFError.
    shape
        Shape of the draws.
    dtype
        Dtype of their real and imaginary parts.
    xp
        Array module: numpy or cupy.

    Examples
    --------
    >>> import numpy as np
    >>> draws = symmetric_stable(np.random.default_rng(0), 2.0, (100_000,))
    >>> round(float((abs(draws) ** 2).mean()))  # at alpha = 2 the variance is 2
    2
    """
    phi = positive_stable(rng, alpha, xp.empty(shape, dtype))
    phi *= 0.5
    xp.sqrt(phi, out=phi)
    real = rng.standard_normal(shape, dtype=phi.dtype) * phi
    imag = rng.standard_normal(shape, dtype=phi.dtype) * phi
    return real + 1j * imag
