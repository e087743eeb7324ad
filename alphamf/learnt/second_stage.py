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
"""Frames that a cell of the speech is made of, counted from its own."""

WITH_TAPS = (10, 2 + 2 * 2 * len(SHIFTS))
"""Features and outputs of a cell: the first two outputs give the frame itself a real coefficient of
either; the others, in pairs of a real and an imaginary part, one to every frame of the sound, and
then of the speech. A network without taps has the first two alone, and the first five features."""

REACH = 0.3
"""Coefficient of a tap where the network's outputs are one and zero."""

MOST = 1.5
"""Largest coefficient of the refiner's speech, but for the taps."""

CHANGE = 0.75
"""Fraction of the network's change of the refiner's speech that is applied: the whole change has
the same ESTOI and a lower PESQ (docs/quality.md)."""

START = (-4.0, math.log(2.0))
"""Logits of the coefficients of the current frame for a network output of zero: almost none of the
sound, and all of the refiner's speech."""

SIBILANTS = 4000.0
"""Frequency in Hz above which sibilants are kept where the sound ends below the network's band."""

SILENT = 1e-7
"""Power, in units of the mean, below which a cell counts as silent."""


def frame(rate: int) -> Frame:
    """Return a frame with windows of 16 ms that overlap by half, at `rate` in Hz."""
    return Frame(2 * (rate // 125), rate // 125)


class Coefficients(NamedTuple):
    """Coefficients that combine the input and the refiner's speech in each cell."""

    # sound, speech: coefficients of the cell itself in the sound and in the refiner's speech, from
    # 0 to 1 and from 0 to `MOST`, shape (..., bins, frames).
    sound: Array
    speech: Array
    # Complex ones that come on top, of the sound at `SHIFTS` and then of the refiner's speech; each
    # of that shape, or of the lowest bins alone. None for a network without taps.
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

        The network's coefficients are interpolated by `change` from those that leave the speech
        unchanged.

        `noisy`, `first`: spectra of the sound and of the refiner's speech, complex, shape (bins,
        frames).
        """
        sound, speech, *taps = apply_in_windows(self._coefficients, (noisy, first), WINDOW)
        change = self.change
        for tap in taps:
            tap *= change
        return Coefficients(change * sound, change * speech + (1 - change), tuple(taps))

    def _coefficients(self, noisy: Array, first: Array) -> tuple[Array, ...]:
        """Compute `coefficients` for one window, without damping the network's correction."""
        xp: Any = namespace(noisy)
        unit = xp.sqrt(mean_level(noisy.real**2 + noisy.imag**2, xp))
        read = features(noisy / unit, first / unit, 0.0, xp)[..., : self.sizes.features]
        found = coefficients(self.outputs(read, xp), xp)
        return found.sound, found.speech, *found.taps


class Dereverberator(SecondStage):
    """A second stage that also removes the echo that `late_reverberation` has left.

    Its `first` is the refiner's speech without the late reverberation, and `noisy` the sound with
    it. Its targets were the direct sound and the first 50 ms (`alphamf.training.refiner.mixtures`).
    """

    kind = "dereverberator"
    change: ClassVar[float] = 0.9
    cell_shapes: ClassVar[tuple[tuple[int, int], ...]] = (WITH_TAPS,)


def features(noisy: Array, first: Array, louder: Array | float, xp: Any) -> Array:
    """Return the network's input features of every cell.

    `noisy`, `first`: shape (..., bins, frames). Returns: shape (..., frames, bins, `WITH_TAPS[0]`):
    the sound's log power, the logit of the gain that leads from it to `first`, the cosine between
    both, the log powers of what was removed and of what was left, the sine between both, and the
    cosine and sine of how far each has turned since the frame before, beyond what its bin turns.
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
    """Shift a spectrum by `frames` frames, and rotate each bin by its phase advance.

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
    """Undo a part of what `made` attenuates above `SIBILANTS`, more where `first` keeps more sound.

    All but `hertz`, shape (bins,), are spectra of shape (bins, frames).
    """
    start = int(np.searchsorted(hertz, SIBILANTS))
    made, noisy, first = (each[start:] for each in (made, noisy, first))
    loudness, given = np.abs(made), np.abs(first)
    gain = np.minimum(given / (np.abs(noisy) + np.float32(1e-15)), 1)
    made += (loudness < given) * gain * (first - made)
