"""Random streams, and the random draws that samplers use.

Normal noise in float32 on a CPU comes from a compiled loop (``_random.c``). If it could not be
compiled when the package was installed, `COMPILED` is False and NumPy draws other numbers from the
same distribution.
"""

from enum import IntEnum
from math import pi
from typing import Any, NamedTuple

import numpy as np

from alphamf.tools.arrays import Array, namespace

try:
    from alphamf.inference import _random
except ImportError:
    COMPILED = False
else:
    COMPILED = True


class Key(IntEnum):
    """First number of a stream's key, by purpose, so that no two purposes share a stream.

    An experiment has its own seed and numbers its streams from 0; code that may run with the seed
    of a chain takes its key from this list.
    """

    CHAIN = 0
    """``(CHAIN + c, START)`` draws the start of chain c, and ``(CHAIN + c, k)`` its segment k, from
    1. In `inference.blocks` the first number is 0 for the start and k for step k; the second is
    that of a block, or of all blocks together."""

    VOICE_ORDER = 1 << 28
    """``(VOICE_ORDER,)`` draws the order of the voices for a dictionary, if not all may be used."""

    RATINGS = (1 << 29) + 2
    """``(RATINGS, 0, b)`` and ``(RATINGS, 1, j)``: factors of the rows and columns of synthetic
    ratings; ``(RATINGS, 2, b, j)``: the ratings of a block."""

    NOISE = (1 << 29) + (1 << 28)
    """``(NOISE + c, k)``: start and EM segments for the spectra of noise alone in channel c."""

    WARM_UP = 1 << 30
    """``(WARM_UP + c, k)``: segment k of the EM that comes before chain c."""

    COARSE = (1 << 30) + (1 << 28)
    """``(COARSE + c, k)``: start and segments of the EM on a few frames that precedes `WARM_UP`."""


START = 0
"""Second number of the key of a chain's start."""


def generator(seed: int, *key: int, xp: Any = np) -> Any:
    """Return the random generator of stream `key` under `seed`.

    Streams with different keys are independent, and a key always opens the same stream, so a
    resumed run needs no saved generator state.

    Parameters
    ----------
    seed
        Seed of the run.
    key
        Key of the stream; see `Key`.
    xp
        Array module of the numbers: numpy or cupy.

    Examples
    --------
    >>> generator(0, 1).random() == generator(0, 1).random() != generator(0, 2).random()
    True
    """
    sequence = np.random.SeedSequence(seed, spawn_key=key)
    if xp is np:
        return np.random.Generator(np.random.SFC64(sequence))
    # Of CuPy's bit generators this one is the cheapest to seed.
    return xp.random.Generator(
        xp.random.Philox4x3210(int(sequence.generate_state(1, np.uint64)[0]))
    )


def word_state(rng: Any, lanes: int) -> Array:
    """Draw the state of `lanes` parallel generators of a compiled loop: 2 `lanes` 64-bit words."""
    return rng.bit_generator.random_raw(2 * lanes)


def noise(rng: Any, like: Array) -> Array:
    """Draw standard normal noise with the shape and dtype of `like`."""
    host = isinstance(like, np.ndarray) and isinstance(rng, np.random.Generator)
    if COMPILED and host and like.dtype == np.float32:
        out = np.empty(like.shape, like.dtype)
        _random.normal(word_state(rng, _random.LANES), out)
        return out
    return rng.standard_normal(like.shape, dtype=like.dtype)


def stable_noise(rng: Any, alpha: float, like: Array) -> Array:
    r"""Draw symmetric alpha-stable noise with the shape and dtype of `like`, for 0 < alpha <= 2.

    Its characteristic function is :math:`e^{-|\omega|^\alpha}`; alpha = 2 is N(0, 2). The
    method is that of Chambers, Mallows & Stuck, JASA 71 (1976).
    """
    xp = namespace(like)
    angle = uniform(rng, xp.empty(like.shape, like.dtype))
    angle -= 0.5
    angle *= pi
    waiting = rng.standard_exponential(like.shape, dtype=like.dtype)
    drawn = xp.cos((1 - alpha) * angle)
    drawn /= waiting
    drawn **= (1 - alpha) / alpha
    drawn *= xp.sin(alpha * angle)
    drawn /= xp.cos(angle) ** (1 / alpha)
    return drawn


def draw_rows(rng: Any, count: int, shape: tuple[int, ...]) -> Array:
    """Draw row numbers from 0 to below `count`, with replacement, of the given shape.

    It takes half the time of ``rng.integers``; a row's probability is exact to 2^-53.
    """
    if hasattr(rng, "rows"):
        return rng.rows(count, shape)
    chosen = rng.random(shape)
    chosen *= count
    return chosen.astype(np.int64)


class _Bits(NamedTuple):
    """Constants that turn the upper bits of a random word into a floating-point number."""

    word: type[np.unsignedinteger[Any]]  # Unsigned integer of the number's size
    shift: int  # Number of lower bits that are dropped
    one: int  # Bits of the number 1
    below_one: float  # Largest number below 1, which is subtracted


_BITS = {
    "float32": _Bits(np.uint32, 9, 0x3F800000, 1 - 2.0**-24),
    "float64": _Bits(np.uint64, 12, 0x3FF0000000000000, 1 - 2.0**-53),
}


def uniform(rng: Any, out: Array) -> Array:
    """Fill `out` with uniform draws from the open interval (0, 1), without its ends; return `out`.

    NumPy's are odd multiples of 2^-24 (float32) or 2^-53 (float64); CuPy's are clipped.
    """
    xp = namespace(out)
    if xp is not np:
        # Without a size CuPy would draw one number and fill `out` with it.
        rng.random(out.shape, dtype=out.dtype, out=out)
        xp.clip(out, 2.0**-25, 1 - 2.0**-24, out=out)
        return out
    # Random bits after the exponent of 1 are a number in [1, 2), in half the time of rng.random.
    bits = _BITS[out.dtype.name]
    raw = rng.bit_generator.random_raw((out.nbytes + 7) // 8)
    words = raw.view(bits.word)[: out.size].reshape(out.shape)
    np.right_shift(words, bits.word(bits.shift), out=words)
    np.bitwise_or(words, bits.word(bits.one), out=words)
    np.subtract(words.view(out.dtype), out.dtype.type(bits.below_one), out=out)
    return out
