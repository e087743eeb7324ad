"""Sizes of the shipped networks, as their configurations have them."""

from alphamf.learnt.dictionary import folder
from alphamf.training.refiner.config_file import load


def _sizes(name):
    return load(folder() / f"{name}.toml").network.sizes


NARROW_SIZES = _sizes("refiner-8k")
WIDE_SIZES = _sizes("refiner-16k")
SECOND_STAGE_SIZES = _sizes("second-stage-16k")
