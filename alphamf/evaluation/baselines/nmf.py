r"""Semi-supervised NMF: speech from the dictionary, one spectrum of noise from the recording.

The spectrogram V of the recording is approximated by :math:`\hat V = W H`. The columns of W are
the dictionary's, held fixed, and one for the noise, learnt with H by the multiplicative updates

.. math:: H \leftarrow H \left(\frac{W^\top (V \hat V^{\beta - 2})}{W^\top \hat V^{\beta - 1}}
   \right)^{1 / (2 - \beta)}, \qquad
   W \leftarrow W \left(\frac{(V \hat V^{\beta - 2}) H^\top}{\hat V^{\beta - 1} H^\top}
   \right)^{1 / (2 - \beta)},

that never raise the beta divergence of V from its approximation: Itakura-Saito's (beta = 0) with V
the power, or Kullback and Leibler's (beta = 1) with V the amplitude. The gain is the speech's share
of :math:`\hat V`.

The dictionary is the one that alpha-MF uses, with neighbouring frames stacked as there. Its W
describes |X|^alpha, so that W^(2/alpha) goes with the power and W^(1/alpha) with the amplitude. Its
rows are scaled to the means of V's rows: speech is heard through another channel than it was learnt
through, and a band that only one of the two has would decide everything.

A single spectrum of noise, the start and the number of updates were chosen on the train sentences
of NOIZEUS at 5 dB. There a second spectrum takes to the speech and costs 2 dB (power) to 4 dB
(amplitude), 200 updates cost the amplitude 2 dB, and without the scaling the noisy input is better.
A W learnt with alpha = 2, from fewer files, gave .4 to .5 dB more to the power.

The arrays take about 20 bytes for each of ``context * bins`` rows and each frame.

References
----------
Fevotte and Idier, Neural Computation 23 (2011), section 4.1, for the updates; Smaragdis, Raj and
Shashanka, ICA 2007, for the semi-supervised use.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from alphamf.audio import stft
from alphamf.audio.resample import resample
from alphamf.evaluation.baselines.base import Clip, fit
from alphamf.factorization.stacking import stack, unstack
from alphamf.inference.random import generator
from alphamf.learnt.dictionary import Dictionary, choose
from alphamf.tools.arrays import Floats

UPDATES = 60

SPEECH_LEVEL = 0.01
"""What the speech starts at, of V's mean; the noise starts at the mean."""

FLOOR = 1e-3
"""Least amplitude of a cell, as a share of its row's mean, and of a row, as one of all rows'."""

TINY = 1e-12


def is_nmf(clip: Clip) -> Floats:
    """Denoise by NMF of the power, in the Itakura-Saito divergence."""
    return _denoise(clip, beta=0)


def kl_nmf(clip: Clip) -> Floats:
    """Denoise by NMF of the amplitude, in the Kullback-Leibler divergence."""
    return _denoise(clip, beta=1)


def _denoise(clip: Clip, beta: int) -> Floats:
    """Denoise at the dictionary's rate; what lies above its band is left alone."""
    dictionary = choose(clip.model, clip.rate)
    sound = resample(clip.noisy, clip.rate, dictionary.rate)
    peak = np.abs(sound).max(initial=0)
    if peak == 0:
        return clip.noisy.copy()
    sound = sound / peak  # so that squares neither overflow nor vanish
    spectrum = stft.forward(sound, dictionary.frame)
    v: Floats = np.abs(spectrum) ** (2 - beta)
    gain = _gain(v / v.mean(), dictionary, beta, clip.seed)
    noise: Floats = sound - stft.inverse(spectrum * gain, dictionary.frame, len(sound))
    noise = fit(resample(noise, dictionary.rate, clip.rate), len(clip.noisy))
    denoised: Floats = clip.noisy - peak * noise
    return denoised


def _gain(v: Floats, dictionary: Dictionary, beta: int, seed: int) -> Floats:
    """Return the speech's share of the approximation of `v`, both of shape (bins, frames)."""
    context, rank = dictionary.context, dictionary.rank
    floor = np.float32(FLOOR) ** (2 - beta)
    level = v.mean(axis=1, keepdims=True)
    level = np.maximum(level, floor * level.mean())
    v = stack(np.maximum(v, floor * level), context)
    levels = np.tile(level, (context, 1))
    rng = generator(seed, 0)
    # Relative to the level of their rows at first, so that columns can be compared.
    speech = dictionary.basis ** np.float32((2 - beta) / dictionary.alpha) / levels
    speech /= speech.mean(axis=0)
    rows = speech.reshape(context, -1, rank).mean(axis=(0, 2))[:, None]
    speech /= np.tile(np.maximum(rows, TINY), (context, 1))
    w = np.concatenate([speech, _start(rng, (len(v), 1))], axis=1)
    w *= levels / w.mean(axis=0)
    h = _start(rng, (rank + 1, v.shape[1]))
    h[:rank] *= SPEECH_LEVEL / rank
    for _ in range(UPDATES):
        h = update(v, w, h, beta)
        w[:, rank:] = update(v.T, h.T, w.T, beta, slice(rank, None)).T
    gain: Floats = unstack(w[:, :rank] @ h[:rank] / (w @ h), context)
    return gain


def _start(rng: Any, shape: tuple[int, int]) -> Floats:
    """Draw positive factors of mean about one."""
    start: Floats = rng.random(shape, dtype=np.float32) + np.float32(0.5)
    return start


def update(v: Floats, w: Floats, h: Floats, beta: int, rows: slice = slice(None)) -> Floats:
    """Make a multiplicative update of rows of h, which never raises the divergence of v from w h.

    Parameters
    ----------
    v, w, h
        Positive, shape (I, J), (I, K) and (K, J). Their transposes update w.
    beta
        0 for Itakura and Saito's divergence, 1 for Kullback and Leibler's.
    rows
        Of h.

    Returns
    -------
    ndarray
        The new ``h[rows]``.
    """
    inverse = 1 / np.maximum(w @ h, TINY)
    part = w[:, rows].T
    ratio = part @ (v * inverse ** (2 - beta)) / np.maximum(part @ inverse ** (1 - beta), TINY)
    new: Floats = np.maximum(h[rows] * ratio ** np.float32(1 / (2 - beta)), np.float32(TINY))
    return new
