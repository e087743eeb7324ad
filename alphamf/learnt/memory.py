"""What a causal network remembers: the newest frames of what its layers read."""

from __future__ import annotations

import numpy as np

from alphamf.learnt import network, planes
from alphamf.tools.arrays import Floats


class Memory:
    """The newest frames of what some layer reads; before the first there is zero.

    Parameters
    ----------
    frames
        How many.
    shape
        Of one frame.

    Attributes
    ----------
    frames
        Shape (frames, *shape): a ring.
    newest
        Which of them is the newest.
    """

    def __init__(self, frames: int, shape: tuple[int, ...]) -> None:
        self.frames: Floats = np.zeros((frames, *shape), np.float32)
        self.newest: int = -1

    def advance(self) -> Floats:
        """Return the oldest frame, which is the newest from now on, to be written."""
        self.newest = (self.newest + 1) % len(self.frames)
        return self.before(0)

    def before(self, frames: int) -> Floats:
        """Return the frame that came so many before the newest."""
        found: Floats = self.frames[self.newest - frames]
        return found


class Memories:
    """All that a causal network keeps of channels side by side.

    Parameters
    ----------
    channels, bins
        Shape of a frame.
    sizes
        Of the network.

    Attributes
    ----------
    blocks
        Of every block; shape of a frame (channels, width).
    cells
        Of every correlation, in planes: shape of a frame (channels, floats of a frame).
    """

    def __init__(self, channels: int, bins: int, sizes: network.Sizes) -> None:
        reach = network.TAPS - 1
        self.blocks: list[Memory] = [
            Memory(reach * 2 ** (k % network.DILATIONS) + 1, (channels, sizes.width))
            for k in range(sizes.blocks)
        ]
        read = [network.FEATURES + sizes.maps, *[sizes.local] * (sizes.deep + 1)]
        apart = [1, *(late for late, _ in network.DEEP[: sizes.deep]), 1]
        self.cells: list[Memory] = [
            Memory(2 * late + 1, (channels, planes.size_of(count, bins)))
            for late, count in zip(apart, read, strict=True)
        ]
