"""The file of weights that the engine reads: dictionary, causal network and seed in one."""

from __future__ import annotations

import struct

from alphamf.factorization.online import unit_columns
from alphamf.inference.random import START, Key, generator
from alphamf.learnt import network as layers
from alphamf.learnt.causal import CausalRefiner
from alphamf.learnt.dictionary import Dictionary
from alphamf.learnt.packed import aligned

MAGIC = b"alphamf1"
FRAME_HOPS = 8
"""Hops of a window, as in ``engine.c``."""

HEADER = "<8s 6i 6i 2f 4x4x4x4x 4Q"
"""As ``struct header`` of ``_parts.h``."""


def pack(dictionary: Dictionary, network: CausalRefiner | None, seed: int) -> bytes:
    """Return the weights of an engine.

    Parameters
    ----------
    dictionary
        Of the speech.
    network
        That predicts the gain; None: the gain is the chain's.
    seed
        Of the chain.
    """
    frame = dictionary.frame
    stride = max(1, round(FRAME_HOPS * frame.hop_length / frame.n_fft))
    sizes = network.sizes if network else layers.Sizes(0, 0, 0, 0, 0, 0)
    state = generator(seed, Key.CHAIN, START).bit_generator.state["state"]["state"]
    header = struct.pack(
        HEADER,
        MAGIC,
        *(dictionary.rate, frame.n_fft, dictionary.bins, dictionary.context),
        *(dictionary.basis.shape[1], stride),
        *(sizes.width, sizes.hidden, sizes.blocks, sizes.maps, sizes.local, sizes.deep),
        *(dictionary.alpha, network.exponent if network else 1.0),
        *(int(word) for word in state),
    )
    basis = dictionary.basis.reshape(dictionary.context, dictionary.bins, -1).swapaxes(1, 2)
    parts = [aligned(header), aligned(unit_columns(basis).tobytes())]
    return b"".join(parts + ([network.packed] if network else []))
