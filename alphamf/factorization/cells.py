r"""The steps of alpha-MF that go cell by cell, on arrays of any module and precision.

`alphamf.factorization.compiled` has the same functions for float32 on a CPU, several times as fast.
Arrays have the shape (*chains, *clips, rows, columns) and are contiguous; `power` is (*clips, rows,
columns).
"""

from __future__ import annotations

from typing import Any

from alphamf.factorization.stable import positive_stable
from alphamf.inference.random import uniform
from alphamf.tools.arrays import Array, namespace

TINY = 1e-12
"""Smallest dispersion and factor: keeps v^(2/alpha - 1) and (1 - shape) / theta finite."""

SCRATCH = 4
"""Buffers that `move` asks for; the slopes take two of them."""

FLOOR = 1e-9
"""epsilon: a fixed variance 90 dB below the mean power, so that no cell's likelihood diverges."""

LARGEST = 1e30
"""Largest part of sigma^2: a larger one would soon be beyond float32, for alpha below one."""


def weigh(v: Array, alpha: float, phi: Array, part: Array) -> None:
    """Put Phi v^(2/alpha), at most `LARGEST`, into `part`, with v first raised to `TINY`.

    Parameters
    ----------
    v
        W H of the source; raised to `TINY` in place.
    alpha
        Index of the source.
    phi
        Phi of the source, or the number 2 where alpha is 2.
    part
        Receives Phi v^(2/alpha).
    """
    xp = namespace(v)
    xp.maximum(v, TINY, out=v)
    if alpha == 1.0:
        xp.multiply(v, v, out=part)
    elif alpha == 2.0:
        part[...] = v
    else:
        xp.log(v, out=part)
        part *= 2 / alpha
        xp.exp(part, out=part)
    part *= phi
    xp.minimum(part, LARGEST, out=part)


def move(
    rng: Any,
    alpha: float,
    power: Array,
    phi: Array,
    part: Array,
    rest: Array,
    sigma2: Array,
    scratch: list[Array],
) -> Any:
    """Move Phi of one source by Metropolis, with its prior as the proposal.

    With q = |X|^2 / sigma^2 and t = sigma'^2 / sigma^2, a proposal is accepted when
    log u < -log t + q (1 - 1/t), that is log(u t) < q (1 - 1/t).

    Parameters
    ----------
    rng
        Generator of the arrays' module.
    alpha
        Index of the source.
    power
        |X|^2, shape (*clips, rows, columns).
    phi, part, sigma2
        Phi, Phi v^(2/alpha) and sigma^2, which are changed in place.
    rest
        sigma^2 less `part`.
    scratch
        `SCRATCH` buffers like `phi`.

    Returns
    -------
    int
        Number of accepted proposals; on a device an array of it, which nothing waits for.
    """
    xp = namespace(phi)
    proposal, ratio, u, spare = scratch
    positive_stable(rng, alpha, proposal, (ratio, u, spare))
    uniform(rng, u)
    xp.divide(part, phi, out=part)
    xp.multiply(part, proposal, out=ratio)
    xp.minimum(ratio, LARGEST, out=ratio)
    ratio += rest
    ratio /= sigma2
    u *= ratio
    xp.log(u, out=u)
    xp.divide(-1.0, ratio, out=ratio)
    ratio += 1.0
    ratio *= power
    ratio /= sigma2
    accept = xp.less(u, ratio)
    proposal *= accept
    phi *= ~accept
    phi += proposal
    part *= phi
    xp.minimum(part, LARGEST, out=part)
    xp.add(rest, part, out=sigma2)
    return xp.count_nonzero(accept)


def slope(
    alpha: float, scale: float, power: Array, v: Array, part: Array, sigma2: Array, out: list[Array]
) -> Array:
    """Return dU/dv of one source, times `scale`, in the first of two buffers.

    Parameters
    ----------
    alpha
        Index of the source.
    scale
        Factor of the slopes.
    power
        |X|^2, shape (*clips, rows, columns).
    v
        W H of the source.
    part
        Phi v^(2/alpha).
    sigma2
        sigma^2.
    out
        Two buffers like `v`.
    """
    plus, minus = slopes(alpha, scale, power, v, part, sigma2, out)
    plus -= minus
    return plus


def slopes(
    alpha: float, scale: float, power: Array, v: Array, part: Array, sigma2: Array, out: list[Array]
) -> list[Array]:
    """Return the two positive parts of dU/dv, of log sigma^2 and of |X|^2 / sigma^2, in buffers.

    Parameters
    ----------
    alpha
        Index of the source.
    scale
        Factor of the slopes.
    power
        |X|^2, shape (*clips, rows, columns).
    v
        W H of the source.
    part
        Phi v^(2/alpha).
    sigma2
        sigma^2.
    out
        Two buffers like `v`.
    """
    xp = namespace(v)
    plus, minus = out
    xp.divide(part, sigma2, out=plus)
    plus *= 2 / alpha * scale
    plus /= v
    xp.divide(power, sigma2, out=minus)
    minus *= plus
    return out
