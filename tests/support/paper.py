"""The model at the size of the HAMCMC paper's denoising experiment, on synthetic power."""

import numpy as np

from alphamf.factorization import cells
from alphamf.factorization.alpha_mf import AlphaMFTarget, Source
from alphamf.factorization.cells import CellOutput, Cells
from alphamf.factorization.priors import Flat, Gamma, Prior
from alphamf.tools.arrays import Floats, to_host

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


def target(power: Floats, basis: Floats, blocks: int) -> AlphaMFTarget:
    """Return the posterior of H of the speech, and of W and H of the noise.

    Of |X|^2, shape (I, J), and W of the speech, shape (I, K), in so many blocks of rows.
    """
    speech, noise_basis, noise = PRIORS
    return AlphaMFTarget(
        power,
        [
            Source(ALPHAS[0], RANKS[0], basis, prior_gains=speech, level=2e-3),
            Source(ALPHAS[1], RANKS[1], prior_basis=noise_basis, prior_gains=noise),
        ],
        blocks=blocks,
    )


def check_cells(device, alpha):
    """Slopes, gain and variance are those of NumPy on a module with other arrays."""
    rng = np.random.default_rng(0)
    power, *arrays = (rng.gamma(1.0, 1.0, (4, 30, 50)) + 0.01 for _ in range(5))
    found = []
    for xp in (np, device):
        v, phi, other, second = (xp.array(array) for array in arrays)
        out = xp.empty((2, 2, *power.shape))
        sources = [
            Cells(alpha, v, phi if alpha < 2 else None, out[0]),
            Cells(1.89, other, second, out[1]),
        ]
        for want in (CellOutput.SLOPES, CellOutput.SLOPE, CellOutput.GAIN, CellOutput.VARIANCE):
            out[...] = 0
            cells.evaluate(want, xp.array(power), sources, scale=2.0)
            found.append(to_host(out).copy())
    for one, two in zip(found[:4], found[4:], strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12)
