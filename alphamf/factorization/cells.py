r"""Elementwise steps of alpha-MF, for arrays of any module and precision.

`alphamf.factorization.compiled` has the same functions for float32 on a CPU, and is much faster.
Arrays have the shape (*chains, *clips, rows, columns); `power` is (*clips, rows, columns).
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from alphamf.factorization.stable import positive_stable
from alphamf.inference.random import uniform
from alphamf.tools.arrays import Array, namespace

TINY = 1e-12
"""Minimum dispersion and factor: keeps their logarithms, and a prior's (1 - shape) / x, finite."""

FLOOR = 1e-9
"""epsilon: a fixed variance 90 dB below the mean power, so that no cell's likelihood diverges."""

LARGEST = 1e30
"""Maximum of a source's part of sigma^2, since for alpha below one float32 could overflow."""


class CellOutput(IntEnum):
    """The kind of output that `evaluate` writes for each source that has buffers."""

    MOVE = 0
    """No output: only Phi moves."""

    SLOPES = 1
    """Two buffers: the positive parts of dU/dv, from log sigma^2 and from |X|^2 / sigma^2."""

    SLOPE = 2
    """One buffer: dU/dv."""

    GAIN = 3
    """The source's part of sigma^2, as a fraction from 0 to 1."""

    VARIANCE = 4
    """sigma^2 of all sources together, epsilon included."""


class Cells(NamedTuple):
    """The cells of one source, which `evaluate` reads and writes."""

    alpha: float  # Index of the source
    v: Array  # W H; values below `TINY` are raised to it in place
    phi: Array | None  # Phi, or None if alpha is 2: Phi is then the number 2
    # One or two buffers like `v` for the source's output; None if it has none.
    out: Sequence[Array] | None = None


def states(rng: Any, alphas: Sequence[float]) -> list[Any]:
    """Return the random state for the Phi moves of each source; None if its Phi is constant."""
    return [rng if alpha < 2 else None for alpha in alphas]


def fill_stable(rng: Any, alpha: float, out: Array) -> Array:
    """Fill `out` with draws of Phi from its prior, and return it; see `positive_stable`."""
    return positive_stable(rng, alpha, out)


def evaluate(
    want: CellOutput,
    power: Array,
    sources: Sequence[Cells],
    *,
    scale: float = 1.0,
    states: Sequence[Any] | None = None,
) -> list[Any]:
    """Move Phi of each source that has a state, then write the output; `scale` multiplies slopes.

    `power`: |X|^2, shape (*clips, rows, columns). Returns: number of accepted moves per source.
    """
    xp = namespace(power)
    bases = [_base(source) for source in sources]
    parts = [
        _part(base, source.v, 2.0 if source.phi is None else source.phi)
        for base, source in zip(bases, sources, strict=True)
    ]
    accepted: list[Any] = [0] * len(sources)
    for s, state in enumerate(states or ()):
        if state is not None:
            accepted[s] = _move(state, power, sources[s], bases[s], parts, s)
    if want == CellOutput.MOVE:
        return accepted
    sigma2 = _total(parts)
    inverse = xp.divide(1.0, sigma2)
    for base, part, source in zip(bases, parts, sources, strict=True):
        if source.out is None:
            continue
        if want == CellOutput.VARIANCE:
            source.out[0][...] = sigma2
        elif want == CellOutput.GAIN:
            xp.divide(part, sigma2, out=source.out[0])
        else:
            plus = source.out[0]
            plus[...] = 2.0 if source.phi is None else source.phi
            if base is not None:
                plus *= base
                xp.minimum(plus, LARGEST, out=plus)
            plus *= inverse
            plus *= 2 / source.alpha * scale
            ratio = power * inverse
            if want == CellOutput.SLOPES:
                xp.multiply(plus, ratio, out=source.out[1])
            else:
                plus *= xp.subtract(1.0, ratio, out=ratio)
    return accepted


def _base(source: Cells) -> Array | None:
    """Raise v to at least `TINY` in place; return v^(2/alpha - 1), None if it is one everywhere."""
    xp = namespace(source.v)
    xp.maximum(source.v, TINY, out=source.v)
    if source.alpha == 1.0:
        return source.v
    if source.alpha == 2.0:
        return None
    base = xp.log(source.v)
    base *= 2 / source.alpha - 1
    return xp.exp(base, out=base)


def _part(base: Array | None, v: Array, phi: Any) -> Array:
    """Return Phi v^(2/alpha), clipped to `LARGEST`."""
    xp = namespace(v)
    if base is None:
        part = xp.multiply(phi, v)
    else:
        part = xp.multiply(phi, base)
        xp.minimum(part, LARGEST, out=part)
        part *= v
    return xp.minimum(part, LARGEST, out=part)


def _total(parts: Sequence[Array], but: int | None = None) -> Array:
    """Return sigma^2, including epsilon, without the part of source `but`, if given."""
    xp = namespace(parts[0])
    total: Array = xp.full_like(parts[0], FLOOR)
    for s, part in enumerate(parts):
        if s != but:
            total += part
    return total


def _move(
    rng: Any, power: Array, source: Cells, base: Array | None, parts: list[Array], own: int
) -> Any:
    """Move Phi of source `own` by Metropolis, and update its part; return the number of moves.

    Proposals are drawn from the prior; sigma'^2 is sigma^2 with the proposal. With a uniform u,
    q = |X|^2 / sigma^2 and t = sigma'^2 / sigma^2, it is accepted if log(u t) < q (1 - 1/t).
    """
    xp = namespace(power)
    phi: Any = source.phi
    proposal, u = xp.empty_like(phi), xp.empty_like(phi)
    positive_stable(rng, source.alpha, proposal)
    uniform(rng, u)
    rest = _total(parts, but=own)
    moved = _part(base, source.v, proposal)
    inverse = xp.divide(1.0, rest + parts[own])
    rest += moved
    u *= rest
    u *= inverse
    xp.log(u, out=u)
    xp.divide(1.0, rest, out=rest)
    inverse -= rest
    inverse *= power
    accept = xp.less(u, inverse)
    for array, new in ((phi, proposal), (parts[own], moved)):
        new *= accept
        array *= ~accept
        array += new
    return xp.count_nonzero(accept)
