"""The network of the bands above 7.5 kHz.

It reads alpha-MF's posterior in these bands and the result below them, and predicts their gains in
windows of 16 ms.
"""

from collections.abc import Sequence
from typing import Any

from alphamf.audio.stft import Frame
from alphamf.learnt import bands, layers, network, refiner
from alphamf.learnt.network_file import TrainedNetwork
from alphamf.learnt.refiner import apply_in_windows
from alphamf.learnt.second_stage import WINDOW
from alphamf.tools.arrays import Array, namespace

SILENT = 1e-6
"""Number added to a cell's power, in units of its band's mean, before its logarithm is taken."""

IN_PAUSES, AROUND = 1.8, 6
"""Exponent of the gains in frames without speech above 7.5 kHz, and number of frames before and
after such speech that keep the network's own exponent (`alphamf.learnt.refiner`)."""


class HighBand(TrainedNetwork):
    """A trained network that predicts the gains of the bands above 7.5 kHz."""

    kind = "high-band"

    @classmethod
    def cells(cls, frame: Frame) -> int:
        """Return the number of cells per frame: the bands, whatever the window."""
        return bands.COUNT

    def gains(self, inputs: Sequence[Array]) -> Array:
        """Predict the gains of all bands; only those above 7.5 kHz are used.

        `inputs`: power, gain and its standard deviation, power of the speech and of the noise;
        shape (bands.COUNT, frames) each.
        """
        (found,) = apply_in_windows(self._gains, inputs, WINDOW)
        return refiner.raise_gain(
            found,
            inputs[0],
            self.exponent,
            in_pauses=IN_PAUSES,
            around=AROUND,
            used=slice(bands.BELOW, None),
        )

    def _gains(self, *inputs: Array) -> tuple[Array, ...]:
        """Predict the gains of one window, before they are raised to a power."""
        xp: Any = namespace(inputs[0])
        read = features(inputs, xp)
        logit = network.logits(self.outputs(read, xp), read)
        return (xp.swapaxes(layers.logistic(logit, xp), -1, -2),)


def features(inputs: Sequence[Array], xp: Any) -> Array:
    """Compute input features from the inputs of `HighBand.gains`, as in `network.features`.

    Powers are in units of each band's mean, so that microphones and voices with different spectra
    give similar features.
    """
    power, gain, gain_std, speech, noise = inputs
    level = power.mean(-1, keepdims=True)
    level = xp.where(level > 0, level, 1)
    log_power, log_speech, log_noise = (
        xp.log(each / level + SILENT) for each in (power, speech, noise)
    )
    return network.features(log_power, gain, gain_std, log_speech, log_noise, xp)
