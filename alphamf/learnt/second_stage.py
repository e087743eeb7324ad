"""The second stage: a network that corrects the refiner's speech in windows of 16 ms.

A gain in windows of 64 ms spreads a knock of 2 ms over a whole window: the knock remains, or speech
is removed with it. Here windows last 16 ms. In each of their cells a network reads the sound X and
the refiner's speech Y, and predicts the complex coefficients a and b of the speech, the sum over k
in `SHIFTS` of a_k X(t + k) + b_k Y(t + k) in frame t: a few taps over time also change the phase,
which a gain leaves as it is in the noisy sound.

References
----------
Mack and Habets, "Deep filtering", IEEE Signal Processing Letters 27 (2020), for the taps.
"""

import math
from typing import Any, ClassVar, NamedTuple

import numpy as np

from alphamf.audio.stft import Frame
from alphamf.learnt import layers, network
from alphamf.learnt.network_file import TrainedNetwork
from alphamf.learnt.refiner import apply_in_windows, mean_level
from alphamf.tools.arrays import Array, namespace

WINDOW = 326
"""Number of frames that the network reads at a time: 2.6 s, as in training."""

SHIFTS = (-1, 0, 1)
"""Frames from which a cell of the speech is computed, relative to its own frame."""

WITH_TAPS = (10, 2 + 2 * 2 * len(SHIFTS))
"""Numbers of features and outputs per cell. The first two outputs are for real coefficients of X(t)
and Y(t); the others, pairs of a real and an imaginary part, are the taps of X and then of Y. A
network without taps has only the first two outputs and the first five features."""

REACH = 0.3
"""Coefficient of a tap whose two outputs, for real and imaginary part, are one and zero."""

MOST = 1.5
"""Largest coefficient of the refiner's speech, without the taps."""

CHANGE = 0.75
"""Fraction of the network's change of the refiner's speech that is applied: the whole change has
the same ESTOI and a lower PESQ (docs/quality.md)."""

START = (-4.0, math.log(2.0))
"""Logits of the sound's coefficient, and of the speech's over `MOST`, for a network output of zero:
almost none of the sound, and all of the refiner's speech."""

SIBILANTS = 4000.0
"""Frequency in Hz above which sibilants are kept if the sound's rate is below the network's."""

SILENT = 1e-7
"""Number that is added to a cell's power, in units of the mean, before its logarithm is taken."""


def frame(rate: int) -> Frame:
    """Return a frame with windows of 16 ms that overlap by half, at `rate` in Hz."""
    return Frame(2 * (rate // 125), rate // 125)


class Coefficients(NamedTuple):
    """Coefficients that combine the input and the refiner's speech in each cell."""

    # sound, speech: real coefficients of this cell of the sound and of the refiner's speech, from
    # 0 to 1 and from 0 to `MOST`, shape (..., bins, frames).
    sound: Array
    speech: Array
    # Added complex coefficients, of the sound at `SHIFTS` and then of the refiner's speech; each
    # of that shape, or of the lowest bins alone. Empty for a network without taps.
    taps: tuple[Array, ...] = ()


class SecondStage(TrainedNetwork):
    """A trained network that predicts coefficients of the input and of the refiner's speech."""

    kind = "second-stage"
    change: ClassVar[float] = CHANGE
    cell_shapes: ClassVar[tuple[tuple[int, int], ...]] = (
        (network.FEATURES, network.OUTPUTS),
        WITH_TAPS,
    )

    def coefficients(self, noisy: Array, first: Array) -> Coefficients:
        """Predict the coefficients of the input and of the refiner's speech for each cell.

        `change` interpolates from coefficients that leave the speech unchanged, at 0, to the
        network's own, at 1.

        `noisy`, `first`: spectra of the sound and of the refiner's speech, complex, shape (bins,
        frames).
        """
        sound, speech, *taps = apply_in_windows(self._coefficients, (noisy, first), WINDOW)
        change = self.change
        for tap in taps:
            tap *= change
        return Coefficients(change * sound, change * speech + (1 - change), tuple(taps))

    def _coefficients(self, noisy: Array, first: Array) -> tuple[Array, ...]:
        """Compute `coefficients` for one window, at a `change` of 1."""
        xp: Any = namespace(noisy)
        unit = xp.sqrt(mean_level(noisy.real**2 + noisy.imag**2, xp))
        read = features(noisy / unit, first / unit, 0.0, xp)[..., : self.sizes.features]
        found = coefficients(self.outputs(read, xp), xp)
        return found.sound, found.speech, *found.taps


class Dereverberator(SecondStage):
    """A second stage that also removes the echo that `late_reverberation` has left.

    Its `first` is the refiner's speech without late reverberation, and `noisy` the sound with it.
    Its targets were direct sound and 50 ms of reflections (`alphamf.training.refiner.mixtures`).
    """

    kind = "dereverberator"
    change: ClassVar[float] = 0.9
    cell_shapes: ClassVar[tuple[tuple[int, int], ...]] = (WITH_TAPS,)


def features(noisy: Array, first: Array, louder: Array | float, xp: Any) -> Array:
    """Return the network's input features of every cell.

    `louder` is added to log powers. Returns: shape (..., frames, bins, `WITH_TAPS[0]`): log power
    of `noisy`, logit of the gain from it to `first`, cosine of the angle between both, log powers
    of what was removed and left, sine of that angle, and cosine and sine of how far each has turned
    since the frame before, beyond what its bin turns. `noisy`, `first`: shape (..., bins, frames).
    """
    powers = [each.real**2 + each.imag**2 for each in (noisy, noisy - first, first)]
    inner = noisy.real * first.real + noisy.imag * first.imag
    gain = xp.clip(inner / (powers[0] + 1e-9), network.NARROWEST, 1 - network.NARROWEST)
    length = xp.sqrt(powers[0] * powers[2] + 1e-12)
    logs = [xp.log(power + SILENT) + louder for power in powers]
    each = [
        logs[0] / 4,
        xp.log(gain / (1 - gain)) / network.LOGIT,
        inner / length,
        xp.clip(logs[1], -14, 12) / 4,
        xp.clip(logs[2], -14, 12) / 4,
        (noisy.conj() * first).imag / length,
    ]
    for spectrum, power in ((noisy, powers[0]), (first, powers[2])):
        before = shift_frames(spectrum, -1, xp)
        length = xp.sqrt(power * (before.real**2 + before.imag**2) + 1e-12)
        turn = spectrum * before.conj() / length
        each += [turn.real, turn.imag]
    return network.cells_of(each, xp)


def shift_frames(spectrum: Array, frames: int, xp: Any) -> Array:
    """Return at each t frame t + `frames`, or zero beyond the ends, with the phase advance undone.

    `spectrum`: shape (..., bins, frames), of windows that overlap by half.
    """
    if not frames:
        return spectrum
    moved: Array = xp.zeros_like(spectrum)
    if frames > 0:
        moved[..., :-frames] = spectrum[..., frames:]
    else:
        moved[..., -frames:] = spectrum[..., :frames]
    if frames % 2:
        moved[..., 1::2, :] *= -1
    return moved


def coefficients(found: Array, xp: Any) -> Coefficients:
    """Convert the network's outputs to coefficients for each cell.

    `found`: as from `layers.outputs`, shape (..., frames, bins, outputs).
    """
    outputs = xp.swapaxes(xp.moveaxis(found, -1, 0), -1, -2)
    sound, speech = (layers.logistic(outputs[k] + START[k], xp) for k in range(2))
    taps = (REACH * (outputs[k] + 1j * outputs[k + 1]) for k in range(2, len(outputs), 2))
    return Coefficients(sound, MOST * speech, tuple(taps))


def speech(noisy: Array, first: Array, factors: Coefficients, xp: Any) -> Array:
    """Combine the spectra with the coefficients; return the speech, shape (..., bins, frames).

    `noisy`, `first`: spectra of the sound and of the refiner's speech, of the same shape.
    """
    made: Array = factors.sound * noisy + factors.speech * first
    each = [(spectrum, frames) for spectrum in (noisy, first) for frames in SHIFTS]
    for tap, (spectrum, frames) in zip(factors.taps, each, strict=False):
        low = tap.shape[-2]
        made[..., :low, :] += tap * shift_frames(spectrum[..., :low, :], frames, xp)
    return made


def keep_sibilants(made: Array, noisy: Array, first: Array, hertz: Array) -> None:
    """Above `SIBILANTS`, move `made` towards a louder `first` by the fraction |first| / |noisy|.

    `hertz`: frequency of each bin, shape (bins,). The others are spectra, shape (bins, frames).
    """
    start = int(np.searchsorted(hertz, SIBILANTS))
    made, noisy, first = (each[start:] for each in (made, noisy, first))
    loudness, given = np.abs(made), np.abs(first)
    gain = np.minimum(given / (np.abs(noisy) + np.float32(1e-15)), 1)
    made += (loudness < given) * gain * (first - made)
