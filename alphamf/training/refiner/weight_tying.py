"""Training with tied weights: neighbouring bins share the weights from and to the stack.

Each of the lowest `NARROW` bins, where the harmonics of a voice are, has its own weights. Above,
there are bands at equal distances on a logarithmic axis, and a bin's weights are interpolated
between those of the two nearest bands. So the stack (`alphamf.learnt.network`) depends less on
single bins, has fewer of these weights, and generalises better to unknown voices and noises
(docs/quality.md). The result is an ordinary network.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from alphamf.tools.arrays import Array, Floats
from alphamf.training.refiner.config import NARROW


def band_shares(bins: int, bands: int) -> Floats:
    """Return each bin's weights for the bands, shape (bins, bands); each row sums to 1."""
    above = np.geomspace(NARROW, bins - 1, bands - NARROW)
    centres = np.concatenate([np.arange(NARROW), above])
    shares = [np.interp(np.arange(bins), centres, row) for row in np.eye(bands)]
    return np.stack(shares, axis=1).astype(np.float32)


def expand_tied(parameters: Mapping[str, Tensor], spread: Tensor) -> dict[str, Tensor]:
    """Expand tied parameters to the parameters of the network for all bins.

    `parameters`: as `alphamf.learnt.network.shapes` names them, with one bin per band. `spread`: as
    from `band_shares`.
    """
    bands = spread.shape[1]
    read = parameters["in.weight"].unflatten(0, (bands, -1))
    every = dict(parameters)
    every["in.weight"] = torch.einsum("bn,nkw->bkw", spread / spread.sum(0), read).flatten(0, 1)
    for name in ("map.weight", "map.bias"):
        made = parameters[name].unflatten(-1, (bands, -1))
        every[name] = torch.einsum("bn,...nm->...bm", spread, made).flatten(-2)
    return every


def fit_tied(parameters: Mapping[str, Array], bins: int, bands: int) -> dict[str, Array]:
    """Return the tied parameters whose expansion is closest to a network's, as float32."""
    shares = band_shares(bins, bands)
    tied = dict(parameters)
    read = parameters["in.weight"]
    read = read.reshape(bins, -1, read.shape[-1])
    inverse = np.linalg.pinv(shares / shares.sum(0))
    tied["in.weight"] = np.einsum("nb,bkw->nkw", inverse, read).reshape(-1, read.shape[-1])
    for name in ("map.weight", "map.bias"):
        made = parameters[name]
        each = made.reshape(*made.shape[:-1], bins, -1)
        every = np.einsum("nb,...bm->...nm", np.linalg.pinv(shares), each)
        tied[name] = every.reshape(*made.shape[:-1], -1)
    return {name: np.ascontiguousarray(value, np.float32) for name, value in tied.items()}
