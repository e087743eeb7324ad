"""The model at the size of the HAMCMC paper's denoising experiment, on synthetic power."""

from __future__ import annotations

import numpy as np

from alphamf.factorization.alpha_mf import AlphaMF, Source
from alphamf.factorization.priors import Flat, Gamma, Prior
from alphamf.tools.arrays import Floats

ROWS, COLUMNS = 257, 140
"""Frequencies and frames: 2.24 seconds at 8 kHz."""

RANKS = (100, 5)
ALPHAS = (1.2, 1.89)
BLOCKS = 10
"""The paper's minibatch is a tenth of the cells."""

PRIORS: tuple[Prior, ...] = (Gamma(1.0, 20.0), Flat(), Gamma(30.0, 30.0))
"""Of H of the speech, and of W and H of the noise."""


def synthetic() -> tuple[Floats, Floats]:
    """Return a power spectrogram, shape (ROWS, COLUMNS), and a basis, shape (ROWS, RANKS[0])."""
    rng = np.random.default_rng(0)
    basis = rng.gamma(0.5, 1.0, (ROWS, RANKS[0])).astype(np.float32) + np.float32(1e-3)
    basis /= basis.mean(axis=0)
    return rng.gamma(0.5, 2.0, (ROWS, COLUMNS)).astype(np.float32), basis


def target(power: Floats, basis: Floats, blocks: int) -> AlphaMF:
    """Return the posterior of H of the speech, and of W and H of the noise.

    Parameters
    ----------
    power
        |X|^2, shape (I, J).
    basis
        W of the speech, shape (I, K).
    blocks
        Row blocks, of which a minibatch is one.
    """
    speech, noise_basis, noise = PRIORS
    return AlphaMF(
        power,
        [
            Source(ALPHAS[0], RANKS[0], basis, prior_gains=speech, level=2e-3),
            Source(ALPHAS[1], RANKS[1], prior_basis=noise_basis, prior_gains=noise),
        ],
        blocks=blocks,
    )
