"""The refiner: a network that corrects the posterior mean of the gain."""

from __future__ import annotations

from typing import Any

from alphamf.learnt import layers, network, pauses
from alphamf.learnt.network_file import TrainedNetwork
from alphamf.learnt.windows import apply_in_windows, mean_level
from alphamf.tools.arrays import Array, namespace

WINDOW = 160
"""Number of frames that the network reads at a time: 2.6 s, as in training. In longer segments its
wide convolutions would read more than in training."""


class Refiner(TrainedNetwork):
    """A trained network that predicts the gain."""

    kind = "refiner"

    def refine(
        self, power: Array, *, gain: Array, gain_std: Array, speech: Array, noise: Array
    ) -> Array:
        """Predict the gain from a posterior.

        `power`: |X|^2, shape (..., bins, frames), as all of these; not all zero.
        """
        inputs = (power, gain, gain_std, speech, noise)
        (found,) = apply_in_windows(self._predict, inputs, WINDOW)
        return pauses.raise_gain(found, power, self.exponent)

    def _predict(
        self, power: Array, gain: Array, gain_std: Array, speech: Array, noise: Array
    ) -> tuple[Array]:
        """Predict the gain of one window, before it is raised to a power."""
        xp: Any = namespace(power)
        level = mean_level(power, xp)
        logs = [xp.log(each / level + network.SILENT) for each in (power, speech, noise)]
        features = network.features(logs[0], gain, gain_std, logs[1], logs[2], xp)
        logit = network.logits(self.outputs(features, xp), features)
        return (xp.swapaxes(layers.logistic(logit, xp), -1, -2),)
