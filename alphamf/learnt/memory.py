"""Memory of a causal network: the newest input frames of its layers."""

from __future__ import annotations

import numpy as np

from alphamf.learnt import network, pauses
from alphamf.tools.arrays import Array, Floats


class Memory:
    """The newest input frames of a layer; initially zero.

    `shape`: shape of one frame.
    """

    def __init__(self, frames: int, shape: tuple[int, ...]) -> None:
        self._frames: Floats = np.zeros((frames, *shape), np.float32)  # a ring
        self._newest = -1

    def frames_at_taps(self, x: Array, taps: int, distance: int) -> list[Array]:
        """Add a frame, and return the frame that each tap reads; the last tap reads the newest.

        `x`: shape (channels, 1, ...). Returns: views of the memory, of the shape of `x`.
        """
        self._newest = (self._newest + 1) % len(self._frames)
        self._frames[self._newest] = x[:, 0]
        return [self._frames[self._newest - k * distance][:, None] for k in reversed(range(taps))]


class Memories:
    """The memory of a causal network for several channels.

    `channels`, `bins`: shape of a frame. `blocks`: memory of each block; frames have the shape
    (channels, width). `cells`: memory of each correlation; frames have the shape (channels, bins,
    inputs).
    """

    def __init__(self, channels: int, bins: int, sizes: network.Sizes) -> None:
        reach = network.TAPS - 1
        self.blocks: list[Memory] = [
            Memory(reach * block.distance + 1, (channels, sizes.width))
            for block in network.stack(sizes)
        ]
        self.cells: list[Memory] = [
            Memory(2 * each.apart[0] + 1, (channels, bins, each.inputs))
            for each in network.correlations(sizes)
        ]
        self._shares = Memory(pauses.AROUND + 1, (channels,))

    def largest_share(self, share: Floats) -> Floats:
        """Add what `pauses.speech_share` is in a new frame, and return the largest in the newest.

        `share`: shape (channels,), as the result.
        """
        kept = self._shares.frames_at_taps(share[:, None], pauses.AROUND + 1, 1)
        largest: Floats = np.max(kept, axis=0)[:, 0]
        return largest
