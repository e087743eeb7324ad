"""Uncertainty of the output: its gain, the gain's deviation, and the range of its level."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from alphamf.audio import stft
from alphamf.audio.stft import Complexes, Frame
from alphamf.tools.arrays import Array, Floats, Reals, parts


class Deviation(NamedTuple):
    """Constants of `deviation`, fitted to development clips (docs/quality.md)."""

    # scale, power, least: constants of the deviation of a loud cell.
    scale: float = 0.78
    power: float = 0.4
    least: float = 0.001
    # Power relative to the mean, at low frequencies, at which a cell counts half as faint: as the
    # hiss of a good recording, which lies below all speech.
    faint: float = 0.001
    faint_std: float = 0.38  # Deviation of the gain there
    # Frequency in Hz above which `faint` falls by 24 dB an octave, as speech and noise do.
    bend: float = 6000


CHOSEN = Deviation()
"""The constants."""

ROWS = 64
"""Bins of a segment that are processed at a time."""

LOUDEST = np.float32(1e12)
"""Larger samples are clipped to this, in full scales, so that their powers do not overflow."""


def output_gain(noisy: Complexes, speech: Complexes, least: np.float32) -> Floats:
    """Return the gain from a noisy spectrum to an output spectrum.

    `noisy`, `speech`: spectra of the sound and of the output, shape (bins, frames). Returns: shape
    (bins, frames).
    """

    def gain(noisy: Complexes, speech: Complexes) -> Floats:
        power = np.abs(noisy) ** 2
        shared = (speech * noisy.conj()).real
        found = np.divide(shared, power, out=np.zeros_like(power), where=power > 0)
        limited: Floats = np.clip(found, least, np.float32(1))
        return limited

    return _by_rows(gain, noisy, speech)


def network_gain_std(power: Floats, gain: Floats, hertz: Reals) -> Floats:
    """Return the standard deviation of a gain predicted by networks; 0 where there is no sound.

    `power`, `gain`: |X|^2 of the sound, and the gain, shape (bins, frames). `hertz`: frequencies of
    the bins, shape (bins,).
    """
    mean = power.mean() + np.float32(1e-20)

    def known(power: Floats, gain: Floats, faint: Floats) -> Floats:
        return np.where(power > 0, deviation(gain, power / mean, faint), np.float32(0))

    return _by_rows(known, power, gain, faint_levels(hertz)[:, None])


def _by_rows(function: Callable[..., Floats], *arrays: Array) -> Floats:
    """Apply an elementwise function to some bins at a time, to limit memory."""
    found: Floats = np.empty(arrays[0].shape, arrays[0].real.dtype)
    for part in parts(len(arrays[0]), ROWS):
        found[part] = function(*(each[part] for each in arrays))
    return found


def faint_levels(hertz: Reals, constants: Deviation = CHOSEN) -> Floats:
    """Return the power, relative to the mean, at which a cell counts half as faint.

    `hertz`: frequencies of cells, of any shape.
    """
    found: Floats = (constants.faint / (1 + (hertz / constants.bend) ** 4)).astype(np.float32)
    return found


def deviation(gain: Floats, level: Floats, faint: Floats, constants: Deviation = CHOSEN) -> Floats:
    """Return the expected root mean square error of gains predicted by networks.

    For a loud cell it is a power of g (1 - g), the variance of a cell that is speech with the
    probability g and noise otherwise. In faint cells, gains near 0 and near 1 are both often wrong.

    `level`: power of the cells over the mean, of the same shape.
    """
    scale, power, least = (np.float32(each) for each in constants[:3])
    share = faint / (faint + level)
    loud = scale * (gain * (1 - gain) + least) ** power
    found: Floats = np.sqrt((1 - share) * loud**2 + share * np.float32(constants.faint_std) ** 2)
    return found


def powers(audio: Floats, frame: Frame, frames: int) -> Floats:
    """Return the power per cell, scaled so that cells sum to the frame's mean square.

    `audio`: shape (samples, channels). `frame`: window and hop of the gain, in samples. Returns:
    shape (channels, bins, frames).
    """
    spectra = [stft.forward(sound, frame)[:, :frames] for sound in audio.clip(-LOUDEST, LOUDEST).T]
    unit = np.float32(frame.n_fft / 2)
    return np.stack([(np.abs(spectrum) / unit) ** 2 for spectrum in spectra])


def levels(power: Floats, gain: Floats, gain_std: Floats) -> Floats:
    """Return the power of the speech in each frame, with lower and upper ends.

    The gain of each cell is taken one standard deviation down and up, in all cells of a frame at
    once: the widest range that these deviations allow.

    `power`, `gain`, `gain_std`: shape (channels, bins, frames). Returns: lower end, middle and
    upper end, mean over channels, shape (frames, 3).
    """
    ends = (np.maximum(gain - gain_std, 0), gain, np.minimum(gain + gain_std, 1))
    found: Floats = np.stack([(each**2 * power).sum(1).mean(0) for each in ends], 1)
    return found
