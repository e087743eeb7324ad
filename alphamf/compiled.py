r"""Loops compiled by Numba for float32 on a CPU: the cells of alpha-MF, and normal noise.

Logarithm, exponential and sine are polynomials without branches, so that a loop becomes vector
instructions; they are right to 3e-7, relative (the logarithm near one: absolute), which is what
float32 holds. The same steps for other arrays are in `alphamf.targets.cells`.

How a loop is written decides how fast it is. LLVM makes vector instructions only where few arrays
might overlap, so a chunk of cells, which the first cache holds, goes through several short loops;
constants are float32, and indices start at zero. All of it is in one file because Numba compiles a
function anew only where the function's own file has changed.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, no-any-return"

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np

from alphamf.arrays import Array
from alphamf.stable import LOG_LIMIT
from alphamf.targets.cells import TINY

F = TypeVar("F", bound=Callable[..., Any])

CHUNK = 1024
"""Cells of a chunk: ten arrays of them fit into 48 kB."""

LANES = 32
"""Generators side by side; a divisor of `CHUNK`."""

_f = np.float32


def fast(function: F) -> F:
    """Compile at the first call, and keep the machine code on disk if there is a place for it."""
    options: dict[str, Any] = {"fastmath": {"nsz", "arcp", "contract", "afn"}, "nogil": True}
    try:
        return numba.njit(function, cache=True, error_model="numpy", **options)
    except RuntimeError:  # neither the package's folder nor the user's cache can be written to
        return numba.njit(function, error_model="numpy", **options)


_ZERO, _HALF, _ONE, _TWO = _f(0), _f(0.5), _f(1), _f(2)
_LN2_HIGH, _LN2_LOW, _LOG2_E = _f(0.693359375), _f(-2.12194440e-4), _f(1 / math.log(2))
_STEP = _f(2.0**-32)
_BELOW_ONE = _f(1 - 2.0**-24)
_LIMIT, _LARGEST = _f(LOG_LIMIT), _f(math.exp(LOG_LIMIT))
_TINY = _f(TINY)
_LOWEST, _HIGHEST = _f(-87.0), _f(88.0)  # between which exp is a normal float32
_ROOT_HALF_BITS = np.int32(0x3F3504F3)
_MANTISSA, _BIAS = np.int32(23), np.int32(127)
_SEVEN, _NINE, _ELEVEN, _WORD = np.uint32(7), np.uint32(9), np.uint32(11), np.uint32(32)
_ONE_BITS, _SIGN = np.uint32(0x3F800000), np.uint32(31)

# Cephes' logf and expf.
_LOG = tuple(
    _f(c)
    for c in (
        7.0376836292e-2,
        -1.1514610310e-1,
        1.1676998740e-1,
        -1.2420140846e-1,
        1.4249322787e-1,
        -1.6668057665e-1,
        2.0000714765e-1,
        -2.4999993993e-1,
        3.3333331174e-1,
    )
)
_EXP = tuple(
    _f(c)
    for c in (
        1.9875691500e-4,
        1.3981999507e-3,
        8.3334519073e-3,
        4.1665795894e-2,
        1.6666665459e-1,
        5.0000001201e-1,
    )
)
# sin(pi w) / w in powers of w^2, interpolated at the Chebyshev nodes of 0 <= w <= 1/2: 3e-11.
_SIN = tuple(
    _f(c) for c in (-7.0282993e-3, 8.2050345e-2, -5.9925219e-1, 2.5501633, -5.1677128, 3.1415927)
)


@fast
def log(x):
    """Logarithm of a positive normal number."""
    bits = np.float32(x).view(np.int32)
    exponent = np.int32(np.int32(bits - _ROOT_HALF_BITS) >> _MANTISSA)
    m = np.int32(bits - np.int32(exponent << _MANTISSA)).view(np.float32) - _ONE
    p = _LOG[0]
    p = p * m + _LOG[1]
    p = p * m + _LOG[2]
    p = p * m + _LOG[3]
    p = p * m + _LOG[4]
    p = p * m + _LOG[5]
    p = p * m + _LOG[6]
    p = p * m + _LOG[7]
    p = p * m + _LOG[8]
    z = m * m
    e = np.float32(exponent)
    return m + (p * m * z + e * _LN2_LOW - _HALF * z) + e * _LN2_HIGH


@fast
def exp(x):
    """Exponential, kept within the normal numbers."""
    x = min(max(x, _LOWEST), _HIGHEST)
    n = np.float32(np.floor(x * _LOG2_E + _HALF))
    r = x - n * _LN2_HIGH - n * _LN2_LOW
    p = _EXP[0]
    p = p * r + _EXP[1]
    p = p * r + _EXP[2]
    p = p * r + _EXP[3]
    p = p * r + _EXP[4]
    p = p * r + _EXP[5]
    power = np.int32(np.int32(np.int32(n) + _BIAS) << _MANTISSA).view(np.float32)
    return (p * r * r + r + _ONE) * power


@fast
def sin_half(w):
    """sin(pi w) of w from 0 to 1/2."""
    q = w * w
    p = _SIN[0]
    p = p * q + _SIN[1]
    p = p * q + _SIN[2]
    p = p * q + _SIN[3]
    p = p * q + _SIN[4]
    p = p * q + _SIN[5]
    return w * p


@fast
def sin(u):
    """sin(pi u) of u from 0 to 1."""
    return sin_half(min(u, _ONE - u))


@fast
def _uniform(word):
    """Return an odd multiple of 2^-24, as `alphamf.stable.uniform` does."""
    return np.uint32(np.uint32(word >> _NINE) | _ONE_BITS).view(np.float32) - _BELOW_ONE


@fast
def fill_words(state, out):
    """Fill `out` with random words, up to a multiple of `LANES`.

    xoshiro128++ in each lane (Blackman & Vigna, ACM TOMS 47, 2021); state has shape (4, LANES).
    """
    a, b, c, d = state[0], state[1], state[2], state[3]
    for start in range(0, out.size, LANES):
        o = out[start : start + LANES]
        for i in range(LANES):
            s0, s1, s2, s3 = a[i], b[i], c[i], d[i]
            t = np.uint32(s0 + s3)
            o[i] = np.uint32(_turn(t, _SEVEN) + s0)
            t = np.uint32(s1 << _NINE)
            s2 = np.uint32(s2 ^ s0)
            s3 = np.uint32(s3 ^ s1)
            b[i] = np.uint32(s1 ^ s2)
            a[i] = np.uint32(s0 ^ s3)
            c[i] = np.uint32(s2 ^ t)
            d[i] = _turn(s3, _ELEVEN)


@fast
def _turn(word, count):
    return np.uint32(np.uint32(word << count) | np.uint32(word >> np.uint32(_WORD - count)))


@fast
def _up(count):
    return (count + LANES - 1) // LANES * LANES


@fast
def _fill_levy(first, second, out):
    for i in range(out.size):
        s = sin_half(_HALF * _uniform(first[i]))
        out[i] = min(_HALF / (-log(_uniform(second[i])) * s * s), _LARGEST)


@fast
def _fill_stable(first, second, h, out):
    power = (_ONE - h) / h
    for i in range(out.size):
        u = _uniform(first[i])
        s = sin(u)
        ratio = sin((_ONE - h) * u) / (-log(_uniform(second[i])) * s)
        out[i] = _TWO * sin(h * u) / s * exp(min(log(ratio) * power, _LIMIT))


@fast
def _choose(word, power, phi, part, rest, sigma2, proposal):
    """Put the old Phi back into `proposal` where the proposal is refused.

    Accepted where log(u t) < q (1 - 1/t), with q = |X|^2 / sigma^2 and t = sigma'^2 / sigma^2.
    """
    for i in range(proposal.size):
        new = rest[i] + part[i] / phi[i] * proposal[i]
        inverse = _ONE / sigma2[i]
        likelihood = power[i] * (inverse - _ONE / new)
        accept = log(_uniform(word[i]) * new * inverse) < likelihood
        proposal[i] = proposal[i] if accept else phi[i]


@fast
def _accept(phi, part, rest, sigma2, proposal):
    accepted = np.int32(0)
    for i in range(phi.size):
        accepted += np.int32(proposal[i] != phi[i])
        part[i] = part[i] / phi[i] * proposal[i]
        phi[i] = proposal[i]
    for i in range(phi.size):
        sigma2[i] = rest[i] + part[i]
    return accepted


@fast
def _move(state, h, power, phi, part, rest, sigma2):
    words = np.empty((3, CHUNK), np.uint32)
    scratch = np.empty(CHUNK, np.float32)
    accepted = 0
    for chain in range(phi.size // power.size):
        for start in range(0, power.size, CHUNK):
            stop = min(start + CHUNK, power.size)
            a, b = chain * power.size + start, chain * power.size + stop
            for k in range(3):
                fill_words(state, words[k][: _up(b - a)])
            proposal = scratch[: b - a]
            if h == _HALF:
                _fill_levy(words[0], words[1], proposal)
            else:
                _fill_stable(words[0], words[1], h, proposal)
            x, p, q, r, s = power[start:stop], phi[a:b], part[a:b], rest[a:b], sigma2[a:b]
            _choose(words[2], x, p, q, r, s, proposal)
            accepted += _accept(p, q, r, s, proposal)
    return accepted


@fast
def _weigh(exponent, v, phi, part):
    if exponent == _TWO:
        for i in range(v.size):
            x = max(v[i], _TINY)
            part[i] = phi[i] * x * x
            v[i] = x
    else:
        for i in range(v.size):
            x = max(v[i], _TINY)
            part[i] = phi[i] * exp(exponent * log(x))
            v[i] = x


@fast
def _slope(scale, power, v, part, sigma2, out):
    for start in range(0, v.size, power.size):
        stop = start + power.size
        w, q, s, o = v[start:stop], part[start:stop], sigma2[start:stop], out[start:stop]
        for i in range(power.size):
            inverse = _ONE / s[i]
            o[i] = scale * q[i] / w[i] * inverse * (_ONE - power[i] * inverse)


@fast
def _slopes(scale, power, v, part, sigma2, plus, minus):
    for start in range(0, v.size, power.size):
        stop = start + power.size
        w, q, s = v[start:stop], part[start:stop], sigma2[start:stop]
        p, m = plus[start:stop], minus[start:stop]
        for i in range(power.size):
            p[i] = scale * q[i] / (w[i] * s[i])
        for i in range(power.size):
            m[i] = p[i] * power[i] / s[i]


@fast
def _normal(state, out):
    words = np.empty((2, CHUNK), np.uint32)
    half = (out.size + 1) // 2
    sines = np.empty(CHUNK, np.float32)
    for start in range(0, half, CHUNK):
        stop = min(start + CHUNK, half)
        for k in range(2):
            fill_words(state, words[k][: _up(stop - start)])
        s = sines[: stop - start]
        _fill_normal(words[0], words[1], out[start:stop], s)
        # Of an odd last pair, one.
        count = min(half + stop, out.size) - (half + start)
        out[half + start : half + start + count] = s[:count]


@fast
def _fill_normal(first, second, cosines, sines):
    """Box and Muller's pairs."""
    for i in range(cosines.size):
        word, u = second[i], _uniform(second[i])
        radius = _radius(first[i])
        cosines[i] = radius * sin_half(_HALF - u)
        # An angle below pi, and a sign from a bit that the uniform number leaves out.
        sine = np.float32(radius * sin(u)).view(np.uint32)
        sines[i] = np.uint32(sine ^ np.uint32(word << _SIGN)).view(np.float32)


@fast
def _radius(word):
    # All 32 bits, so that the law is cut off at 6.7 and not at 5.8 standard deviations.
    return np.sqrt(-_TWO * log(np.float32(word) * _STEP + _HALF * _STEP))


def word_state(rng: Any) -> Array:
    """Return a state for `fill_words` made of a NumPy generator's words."""
    return rng.bit_generator.random_raw(2 * LANES).view(np.uint32).reshape(4, LANES)


def normal(rng: Any, out: Array) -> Array:
    """Fill `out` with standard normal noise, in a tenth of the time of ``rng.standard_normal``."""
    _normal(word_state(rng), out.reshape(-1))
    return out


def weigh(v: Array, alpha: float, phi: Array, part: Array) -> None:
    """See `alphamf.targets.cells.weigh`."""
    if alpha == 2.0:  # whose phi is a number
        np.maximum(v, _TINY, out=v)
        np.multiply(v, phi, out=part)
    else:
        _weigh(_f(2 / alpha), *_flat(v, phi, part))


def move(
    rng: Any,
    alpha: float,
    power: Array,
    phi: Array,
    part: Array,
    rest: Array,
    sigma2: Array,
    scratch: list[Array],
) -> int:
    """See `alphamf.targets.cells.move`."""
    return int(_move(word_state(rng), _f(alpha / 2), *_flat(power, phi, part, rest, sigma2)))


def slope(
    alpha: float, scale: float, power: Array, v: Array, part: Array, sigma2: Array, out: list[Array]
) -> Array:
    """See `alphamf.targets.cells.slope`."""
    _slope(_f(2 / alpha * scale), *_flat(power, v, part, sigma2, out[0]))
    return out[0]


def slopes(
    alpha: float, scale: float, power: Array, v: Array, part: Array, sigma2: Array, out: list[Array]
) -> list[Array]:
    """See `alphamf.targets.cells.slopes`."""
    _slopes(_f(2 / alpha * scale), *_flat(power, v, part, sigma2, *out))
    return out


def _flat(*arrays: Array) -> list[Array]:
    return [array.reshape(-1) for array in arrays]
