"""The file of weights that the engine reads: dictionary, causal networks and seed in one."""

from __future__ import annotations

import struct

from alphamf.factorization.online import unit_columns
from alphamf.inference.random import START, Key, generator
from alphamf.learnt.causal import CausalHighBand, CausalRefiner
from alphamf.learnt.dictionary import Dictionary
from alphamf.learnt.packed import aligned

MAGIC = b"alphamf2"
FRAME_HOPS = 8
"""Hops of a window, as in ``engine.c``."""

HEADER = "<8s 6i 6if 6if f4x 4Q"
"""As ``struct header`` of ``_parts.h``."""


def pack(
    dictionary: Dictionary,
    network: CausalRefiner | None,
    high_band: CausalHighBand | None,
    seed: int,
) -> bytes:
    """Return the weights of an engine.

    Parameters
    ----------
    dictionary
        Of the speech.
    network
        That predicts the gain; None: the gain is the chain's.
    high_band
        That predicts the gains above the dictionary's band; None: they are that at its top.
    seed
        Of the chain.
    """
    frame = dictionary.frame
    stride = max(1, round(FRAME_HOPS * frame.hop_length / frame.n_fft))
    networks = network, high_band
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


def _sizes(network: CausalRefiner | None) -> tuple[float, ...]:
    """Return the numbers of ``struct sizes`` of ``_parts.h``."""
    if network is None:
        return (0, 0, 0, 0, 0, 0, 1.0)
    sizes = network.sizes
    each = (sizes.width, sizes.hidden, sizes.blocks, sizes.maps, sizes.local, sizes.deep)
    return (*each, network.exponent)
