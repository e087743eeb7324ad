"""Memory of a causal network: the newest input frames of its layers."""

from __future__ import annotations

import numpy as np

from alphamf.learnt import network, planes
from alphamf.tools.arrays import Array, Floats


class Memory:
    """The newest input frames of a layer; initially zero.

    Parameters
    ----------
    frames
        How many.
    shape
        Shape of one frame.

    Attributes
    ----------
    frames
        Shape (frames, *shape): a ring.
    newest
        Index of the newest frame.
    """

    def __init__(self, frames: int, shape: tuple[int, ...]) -> None:
        self.frames: Floats = np.zeros((frames, *shape), np.float32)
        self.newest: int = -1

    def advance(self) -> None:
        """Make the oldest frame the newest one, to be written."""
        self.newest = (self.newest + 1) % len(self.frames)

    def frame_before(self, frames: int) -> Floats:
        """Return the frame that came so many before the newest: a view."""
        frame: Floats = self.frames[self.newest - frames]
        return frame

    def frames_at_taps(self, x: Array, taps: int, distance: int) -> list[Array]:
        """Add a frame, and return the frame that each tap reads; the last tap reads the newest.

        Parameters
        ----------
        x
            Shape (channels, 1, width), or (channels, 1, bins, features) where it is of cells.
        taps, distance
            How many there are, and frames from one to the next.

        Returns
        -------
        list of ndarray
            Views of the memory, of the shape of `x`.
        """
        self.advance()
        frames = [self.frame_before(k * distance)[:, None] for k in reversed(range(taps))]
        if x.ndim == 4:
            frames = [planes.cells_of(frame, x.shape[-2]) for frame in frames]
        frames[-1][...] = x
        return frames


class Memories:
    """The memory of a causal network for several channels.

    Parameters
    ----------
    channels, bins
        Shape of a frame.
    sizes
        Sizes of the network.

    Attributes
    ----------
    blocks
        Memory of each block; frames have the shape (channels, width).
    cells
        Memory of each correlation, in planes; frames have the shape (channels, floats per frame).
    """

    def __init__(self, channels: int, bins: int, sizes: network.Sizes) -> None:
        reach = network.TAPS - 1
        self.blocks: list[Memory] = [
            Memory(reach * block.distance + 1, (channels, sizes.width))
            for block in network.stack(sizes)
        ]
        self.cells: list[Memory] = [
            Memory(2 * each.apart[0] + 1, (channels, planes.size_of(each.inputs, bins)))
            for each in network.correlations(sizes)
        ]
