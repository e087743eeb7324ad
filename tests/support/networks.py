"""Sizes of the shipped networks, as their configurations have them, and untrained networks."""

import numpy as np

from alphamf.learnt import network
from alphamf.learnt.dictionary import folder
from alphamf.training.refiner.config_file import load


def _sizes(name):
    return load(folder() / f"{name}.toml").network.sizes


NARROW_SIZES = _sizes("refiner-8k")
WIDE_SIZES = _sizes("refiner-16k")
SECOND_STAGE_SIZES = _sizes("second-stage-16k")


def untrained(sizes, bins, seed=0, spread=0.1):
    """Return parameters that all matter, and are those of a trained network in size."""
    rng = np.random.default_rng(seed)
    start = network.start(rng, bins, sizes)
    return {
        name: (value + spread * rng.standard_normal(value.shape)).astype(np.float32)
        for name, value in start.items()
    }
