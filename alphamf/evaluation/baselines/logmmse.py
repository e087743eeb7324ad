r"""The log-spectral amplitude estimator, with a noise estimate that follows pauses in speech.

*Noise.* With y the spectrum of a frame and l the noise power so far, the probability of speech is

.. math:: p = \left(1 + (1 + \xi_1) \exp\left(-\frac{|y|^2}{l}
   \frac{\xi_1}{1 + \xi_1}\right)\right)^{-1}, \qquad
   l \leftarrow b\, l + (1 - b) \left(p\, l + (1 - p) |y|^2\right),

where :math:`\xi_1` is the SNR of speech where it is present. p is limited to .99 where its running
mean exceeds that, so that l follows a noise that has risen.

*Gain.* With the a-posteriori SNR :math:`\gamma = |y|^2 / l`, and the a-priori SNR "directed" by
the decision A of the frame before, and with :math:`E_1`, the exponential integral,

.. math:: \xi = \max\left(\xi_0,\; d\, \frac{A^2}{l} + (1 - d) \max(\gamma - 1, 0)\right), \qquad
   G = \frac{\xi}{1 + \xi} \exp\left(\frac12 E_1(v)\right), \qquad
   v = \frac{\xi}{1 + \xi} \gamma, \qquad A = G |y|.

The papers have d = .98 and b = .8, with steps of 16 ms. Here, with steps of 8 ms, d = .96 and
b = .95, chosen on the train sentences of NOIZEUS; :math:`\xi_0` is -25 dB, and G is limited to 1.

References
----------
Gerkmann and Hendriks, IEEE TASLP 20 (2012), eqs. 8, 18 and 22 to 24, for the noise; Ephraim and
Malah, IEEE TASSP 33 (1985), eq. 20, for the gain, and TASSP 32 (1984), eq. 51, for the SNR.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphamf.audio import stft
from alphamf.audio.stft import Frame
from alphamf.evaluation.baselines.base import Clip
from alphamf.tools.arrays import Floats

Doubles = NDArray[np.float64]

HOP_SECONDS = 0.008
OVERLAP = 4
"""Ratio of window and hop: windows of 32 ms every 8 ms."""

START_FRAMES = 12
"""Number of frames at the start that count as noise: about a tenth of a second."""

PRESENT_SNR = 10**1.5
"""15 dB, the SNR of speech where it is present."""

NOISE_SMOOTHING = PRESENCE_SMOOTHING = 0.95
MOST_PRESENCE = 0.99
SNR_SMOOTHING = 0.96
LEAST_SNR = 10**-2.5
"""Minimum of the a-priori SNR: -25 dB."""

SILENT = 1e-8
"""Power relative to the mean: frames up to it are skipped; noise estimates are at least this."""


def denoise(clip: Clip) -> Floats:
    """Denoise with the log-spectral amplitude estimator.

    Examples
    --------
    >>> import soundfile
    >>> clean, rate = soundfile.read("data/sample-clean.wav", dtype="float32")
    >>> noisy, rate = soundfile.read("data/sample-noisy.wav", dtype="float32")
    >>> denoise(Clip(noisy, rate, clean)).shape == noisy.shape
    True
    """
    hop = max(1, round(HOP_SECONDS * clip.rate))
    frame = Frame(OVERLAP * hop, hop)
    spectrum = stft.forward(clip.noisy, frame)
    power = np.abs(spectrum.T.astype(np.complex128)) ** 2
    loudness = power.mean(axis=1)
    active = loudness > SILENT * loudness.mean()
    if not active.any():
        return clip.noisy.copy()
    gain = np.ones(spectrum.shape, np.float32)
    gain[:, active] = _gains(power[active], track_noise(power[active])).T
    return stft.inverse(spectrum * gain, frame, len(clip.noisy))


def track_noise(power: Doubles) -> Doubles:
    """Return the noise power, given |y|^2 of the recording; both have shape (frames, bins)."""
    least = SILENT * power.mean()
    noise = np.maximum(power[:START_FRAMES].mean(axis=0), least)
    tracked = np.empty_like(power)
    presence: Any = 0.5
    share = PRESENT_SNR / (1 + PRESENT_SNR)
    for y, row in zip(power, tracked, strict=True):
        p = 1 / (1 + (1 + PRESENT_SNR) * np.exp(-share * y / noise))
        presence = PRESENCE_SMOOTHING * presence + (1 - PRESENCE_SMOOTHING) * p
        p = np.where(presence > MOST_PRESENCE, np.minimum(p, MOST_PRESENCE), p)
        expected = p * noise + (1 - p) * y
        noise = NOISE_SMOOTHING * noise + (1 - NOISE_SMOOTHING) * expected
        noise = np.maximum(noise, least)
        row[:] = noise
    return tracked


def _gains(power: Doubles, noise: Doubles) -> Doubles:
    """Return the gain per cell, given |y|^2 and the noise power; all have shape (frames, bins)."""
    posterior = power / noise
    instant = np.maximum(posterior - 1, 0)
    gains = np.empty_like(power)
    before = instant[0] * noise[0]
    for j, row in enumerate(gains):
        prior = SNR_SMOOTHING * before / noise[j] + (1 - SNR_SMOOTHING) * instant[j]
        row[:] = np.minimum(amplitude_gain(np.maximum(prior, LEAST_SNR), posterior[j]), 1)
        before = row * row * power[j]
    return gains


def amplitude_gain(prior: Doubles, posterior: Doubles) -> Doubles:
    """Return G for both SNRs: G |y| is the exponential of the expected log amplitude of speech."""
    from scipy.special import exp1

    wiener = prior / (1 + prior)
    v = np.maximum(wiener * posterior, 1e-8)  # E1(0) is infinite
    return wiener * np.exp(exp1(v) / 2)
