"""What is computed of every cell, on the CPU and on a device."""

from __future__ import annotations

import numpy as np

from alphamf.factorization import cells
from alphamf.factorization.cells import CellOutput, Cells
from alphamf.tools.arrays import to_host


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
