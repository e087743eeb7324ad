"""Where the band of a sound ends, and what lies above."""

import numpy as np

from alphamf.audio.stft import Frame, forward, sqrt_hann
from alphamf.tools.arrays import Floats

FRAME = Frame(4096, 2048)
WINDOW = sqrt_hann(FRAME.n_fft) ** 4
"""Its side lobes are below -100 dB from 100 Hz on."""

NOTHING = -80.0
"""Level in dB below that of the sound that counts as nothing."""

MARGIN = 500.0
"""From the edge to where nothing may appear, in Hz."""


def spectrum(sound: Floats, rate: int) -> tuple[Floats, Floats]:
    """Return frequencies in Hz, and the energy at and above each, in dB of the whole sound's."""
    spectra = forward(sound, FRAME, WINDOW)[:, 2:-2]  # those at the ends hold steps to silence
    power = (np.abs(spectra).astype(float) ** 2).sum(axis=1)
    energy = power[::-1].cumsum()[::-1]
    return np.arange(FRAME.bins) * rate / FRAME.n_fft, 10 * np.log10(energy / energy[0] + 1e-30)


def edge(sound: Floats, rate: int) -> float:
    """Return the frequency in Hz above which there is `NOTHING`."""
    frequencies, above = spectrum(sound, rate)
    return float(frequencies[np.flatnonzero(above > NOTHING)[-1]])


def level_above(sound: Floats, rate: int, frequency: float) -> float:
    """Return the energy above a frequency in Hz, in dB of the whole sound's."""
    frequencies, above = spectrum(sound, rate)
    return float(above[frequencies >= frequency][0])
