"""The refiner: a network that reads the posterior of the speech's gain and corrects it."""

from __future__ import annotations

from typing import Any

from alphamf.learnt import layers, network
from alphamf.learnt.network_file import TrainedNetwork
from alphamf.learnt.windows import in_windows, mean_level
from alphamf.tools.arrays import Array, namespace

WINDOW = 160
"""Frames that the network reads at a time, 2.6 s: as many as in training. It has never seen what a
longer segment puts into the reach of its wide convolutions."""


class Refiner(TrainedNetwork):
    """A trained network whose output is a gain and its standard deviation."""

    kind = "refiner"

    def refine(
        self, power: Array, *, gain: Array, gain_std: Array, speech: Array, noise: Array
    ) -> tuple[Array, Array]:
        """Return mean and standard deviation of the gain, given a posterior.

        Parameters
        ----------
        power
            |X|^2, shape (..., bins, frames), as all of these; not all zero.
        gain, gain_std
            Posterior mean and standard deviation of the speech's Wiener gain.
        speech, noise
            Posterior means of both variances, in the power's units.
        """
        inputs = (power, gain, gain_std, speech, noise)
        refined, std = in_windows(self._refine, inputs, WINDOW)
        return refined, std

    def _refine(
        self, power: Array, gain: Array, gain_std: Array, speech: Array, noise: Array
    ) -> tuple[Array, Array]:
        """Do as `refine` for one window."""
        xp: Any = namespace(power)
        level = mean_level(power, xp)
        logs = [xp.log(each / level + network.SILENT) for each in (power, speech, noise)]
        features = network.features(logs[0], gain, gain_std, logs[1], logs[2], xp)
        logit, log_std = network.logits(self.outputs(features, xp), features, xp)
        refined = layers.logistic(logit, xp) ** self.exponent
        # The geometric mean of the network's deviation and of the largest that a gain of this mean
        # can have is better calibrated (docs/quality.md).
        most = xp.sqrt(refined * (1 - refined))
        std = xp.sqrt(xp.exp(log_std) * most)
        return xp.swapaxes(refined, -1, -2), xp.swapaxes(std, -1, -2)
