r"""Semi-supervised NMF: speech spectra from the dictionary, one noise spectrum learned.

The spectrogram V of the recording is approximated by :math:`\hat V = W H`. W has the dictionary's
columns, which stay fixed, and a column for the noise. The latter and H are fitted by the updates

.. math:: H \leftarrow H \left(\frac{W^\top (V \hat V^{\beta - 2})}{W^\top \hat V^{\beta - 1}}
   \right)^{1 / (2 - \beta)}, \qquad
   W \leftarrow W \left(\frac{(V \hat V^{\beta - 2}) H^\top}{\hat V^{\beta - 1} H^\top}
   \right)^{1 / (2 - \beta)},

which never increase the beta divergence of V from its approximation: Itakura-Saito's (beta = 0)
with V the power, or Kullback and Leibler's (beta = 1) with V the amplitude. The gain is the
speech's fraction of :math:`\hat V`.

The dictionary is the one that alpha-MF uses, with neighbouring frames stacked as there. Its W
describes amplitudes to the power of alpha, so W^(2/alpha) belongs to the power and W^(1/alpha) to
the amplitude. Its rows are scaled to the means of V's, because of recordings' frequency responses.

A single spectrum of noise, the start and the number of updates were chosen on the train sentences
of NOIZEUS at 5 dB. The arrays take about 20 bytes for each of ``context * bins`` rows and each
frame.

References
----------
Fevotte and Idier, Neural Computation 23 (2011), section 4.1, for the updates; Smaragdis, Raj and
Shashanka, ICA 2007, for the semi-supervised use.
"""

from typing import Any

import numpy as np

from alphamf.audio import stft
from alphamf.audio.resample import resample
from alphamf.evaluation.baselines.base import Clip, fit
from alphamf.factorization.alpha_mf import stack, unstack
from alphamf.inference.random import generator
from alphamf.learnt.dictionary import Dictionary, choose
from alphamf.tools.arrays import Floats

UPDATES = 60

SPEECH_LEVEL = 0.01
"""Initial level of the speech relative to the initial level of the noise, which is V's mean."""

FLOOR = 1e-3
"""Minimum amplitude of a cell relative to its row's mean, and of a row relative to the mean row."""

TINY = 1e-12


def denoise(clip: Clip, beta: int) -> Floats:
    """Denoise by NMF (`beta` 0 or 1) up to half the dictionary's rate; higher frequencies stay."""
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
    return clip.noisy - peak * noise


def _gain(v: Floats, dictionary: Dictionary, beta: int, seed: int) -> Floats:
    """Return the speech's fraction of the approximation of `v`, both of shape (bins, frames)."""
    context, rank = dictionary.context, dictionary.rank
    floor = np.float32(FLOOR) ** (2 - beta)
    level = v.mean(axis=1, keepdims=True)
    level = np.maximum(level, floor * level.mean())
    v = stack(np.maximum(v, floor * level), context)
    levels = np.tile(level, (context, 1))
    rng = generator(seed, 0)
    # First divided by the levels of the rows, so that columns can be compared.
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
    return unstack(w[:, :rank] @ h[:rank] / (w @ h), context)


def _start(rng: Any, shape: tuple[int, int]) -> Floats:
    """Draw positive factors with a mean of about one."""
    return rng.random(shape, dtype=np.float32) + np.float32(0.5)


def update(v: Floats, w: Floats, h: Floats, beta: int, rows: slice = slice(None)) -> Floats:
    """Return `rows` of h after an update, which never increases the divergence of v from w h.

    `v`, `w`, `h`: positive, shape (I, J), (I, K) and (K, J).
    """
    inverse = 1 / np.maximum(w @ h, TINY)
    part = w[:, rows].T
    ratio = part @ (v * inverse ** (2 - beta)) / np.maximum(part @ inverse ** (1 - beta), TINY)
    return np.maximum(h[rows] * ratio ** np.float32(1 / (2 - beta)), np.float32(TINY))
