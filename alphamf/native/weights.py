"""The file of weights that the engine reads: dictionary, causal networks and seed in one."""

from __future__ import annotations

import struct

from alphamf.inference.random import START, Key, generator
from alphamf.learnt.causal import CausalNetwork, CausalNetworks
from alphamf.learnt.dictionary import Dictionary
from alphamf.learnt.packed import aligned
from alphamf.tools.arrays import Floats, round_to_bfloat16

MAGIC = b"alphamf5"
FRAME_HOPS = 8
"""Hops of a window, as in ``engine.c``."""

HEADER = "<8s 6i 6if 6if 6if f 4Q"
"""As ``struct header`` of ``_parts.h``."""


def unit_columns(basis: Floats) -> Floats:
    """Return W, shape (context, columns, bins), with columns of mean one, in bfloat16 numbers."""
    return round_to_bfloat16(basis / basis.mean(axis=(0, 2), keepdims=True))


def pack(dictionary: Dictionary, networks: CausalNetworks, seed: int) -> bytes:
    """Return the weights of an engine."""
    frame = dictionary.frame
    stride = max(1, round(FRAME_HOPS * frame.hop_length / frame.n_fft))
    state = generator(seed, Key.CHAIN, START).bit_generator.state["state"]["state"]
    header = struct.pack(
        HEADER,
        MAGIC,
        *(dictionary.rate, frame.n_fft, dictionary.bins, dictionary.context),
        *(dictionary.basis.shape[1], stride),
        *(number for each in networks for number in _sizes(each)),
        dictionary.alpha,
        *(int(word) for word in state),
    )
    basis = dictionary.basis.reshape(dictionary.context, dictionary.bins, -1).swapaxes(1, 2)
    parts = [aligned(header), aligned(unit_columns(basis).tobytes())]
    return b"".join([*parts, *(each.packed for each in networks if each)])


def _sizes(network: CausalNetwork | None) -> tuple[float, ...]:
    """Return the numbers of ``struct sizes`` of ``_parts.h``."""
    if network is None:
        return (0, 0, 0, 0, 0, 0, 1.0)
    sizes = network.sizes
    each = (sizes.width, sizes.hidden, sizes.blocks, sizes.maps, sizes.local, sizes.deep)
    return (*each, network.exponent)
