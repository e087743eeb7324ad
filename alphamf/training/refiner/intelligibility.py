"""ESTOI as a loss: differentiable, in JAX, and of spectra."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from alphamf.audio.stft import Frame, frame_count, sqrt_hann
from alphamf.tools.arrays import Array, Floats

WINDOW = 0.0256
"""Length of an analysis window in seconds; they overlap by half."""

SEGMENT, STEP = 30, 3
"""Frames of a segment of the envelope, and between the starts of two; ESTOI's step is one."""

LOWEST, BANDS = 150.0, 15
"""Centre of the lowest third-octave band in Hz, and largest number of bands."""

SILENT = 1e-4
"""Energy, in that of the loudest frame, below which a frame of the clean sound is left out."""

SOFT = 0.05
"""Norm, in that of the clean envelope, that is added to the estimate's: it bounds the gradient at
silence."""


def third_octaves(bins: int, rate: int) -> Floats:
    """Return which bins belong to which band, 0 or 1, shape (bins, bands)."""
    frequencies = np.arange(bins) * (rate / 2 / (bins - 1))
    edges = LOWEST * 2 ** ((np.arange(BANDS + 1) - 0.5) / 3)
    edges = edges[: 1 + np.searchsorted(edges, rate / 2)]
    inside = (frequencies[:, None] >= edges[:-1]) & (frequencies[:, None] < edges[1:])
    return inside.astype(np.float32)


def forward(sounds: Array, frame: Frame) -> Array:
    """Compute the STFT, as `alphamf.audio.stft.forward` does.

    Parameters
    ----------
    sounds
        Shape (clips, samples).
    frame
        Window length and hop in samples.

    Returns
    -------
    ndarray
        Shape (clips, bins, frames), complex.
    """
    n_fft, hop_length = frame
    frames = frame_count(sounds.shape[1], frame)
    left = n_fft // 2
    right = (frames - 1) * hop_length + n_fft - left - sounds.shape[1]
    padded = jnp.pad(sounds, ((0, 0), (left, right)))
    blocks = padded[:, _places(frames, n_fft, hop_length)] * sqrt_hann(n_fft)
    spectra: Array = jnp.swapaxes(jnp.fft.rfft(blocks), 1, 2)
    return spectra


def inverse(spectra: Array, hop_length: int) -> Array:
    """Invert the STFT, as `alphamf.audio.stft.inverse` does, without half a window at both ends.

    Parameters
    ----------
    spectra
        Shape (clips, bins, frames), complex.
    hop_length
        In samples.

    Returns
    -------
    ndarray
        Shape (clips, (frames - 1) * hop_length).
    """
    clips, bins, frames = spectra.shape
    n_fft = 2 * (bins - 1)
    window = sqrt_hann(n_fft)
    places = _places(frames, n_fft, hop_length)
    blocks = jnp.fft.irfft(jnp.swapaxes(spectra, 1, 2), n_fft) * window
    total = (frames - 1) * hop_length + n_fft
    audio = jnp.zeros((clips, total), blocks.dtype).at[:, places].add(blocks)
    weight = jnp.zeros(total, blocks.dtype).at[places].add(window**2)
    inner = slice(n_fft // 2, total - n_fft // 2)
    sound: Array = audio[:, inner] / weight[inner]
    return sound


def estoi(clean: Array, estimate: Array, frame: Frame, rate: int) -> Array:
    """Correlate third-octave envelopes over segments of 384 ms, as ESTOI does.

    Envelopes are centred and divided by their norm over the frames of a segment and then over the
    bands, and multiplied. Unlike in ESTOI the sound keeps its rate, and silent frames are removed
    from the spectra, not from the sound; the difference is below .01.

    Parameters
    ----------
    clean, estimate
        Spectra, shape (clips, bins, frames), complex.
    frame, rate
        STFT frame and sampling rate in Hz of the spectra.

    Returns
    -------
    ndarray
        Shape (clips,); 0 where there is less than a segment of sound.

    References
    ----------
    Jensen and Taal, IEEE/ACM TASLP 24, 2016, equations 3 to 7.
    """
    length = round(WINDOW * rate)
    step = length // 2
    bands = third_octaves(length + 1, rate)

    def analysed(spectra: Array) -> Array:
        audio = inverse(spectra, frame.hop_length)
        places = _places(max(1, 1 + (audio.shape[1] - length) // step), length, step)
        found = jnp.fft.rfft(audio[:, places] * np.hanning(length + 2)[1:-1], 2 * length)
        power: Array = found.real**2 + found.imag**2
        return power

    power = analysed(clean)
    energy = power.sum(2)
    active = energy > SILENT * energy.max(1, keepdims=True)
    order = jnp.argsort(~active, axis=1, stable=True)[..., None]
    segment = min(SEGMENT, power.shape[1])
    places = _places((power.shape[1] - segment) // STEP + 1, segment, STEP)
    counts = (places[:, -1] < active.sum(1, keepdims=True)).astype(power.dtype)

    ours, theirs = power @ bands, analysed(estimate) @ bands
    least = 1e-7 * ours.mean(1, keepdims=True) + 1e-12
    # Shape (clips, segments, frames, bands).
    ours, theirs = (
        jnp.take_along_axis(jnp.sqrt(each + least), order, 1)[:, places] for each in (ours, theirs)
    )
    for axis in (2, 3):
        ours, theirs = (each - each.mean(axis, keepdims=True) for each in (ours, theirs))
        size = (ours * ours).sum(axis, keepdims=True) + 1e-9
        other = (theirs * theirs).sum(axis, keepdims=True) + SOFT**2 * size
        ours, theirs = ours / jnp.sqrt(size), theirs / jnp.sqrt(other)
    each = (ours * theirs).sum((2, 3)) / segment
    scores: Array = (each * counts).sum(1) / jnp.maximum(counts.sum(1), 1)
    return scores


def _places(blocks: int, length: int, step: int) -> Array:
    """Return the sample indices of every block, shape (blocks, length)."""
    return step * np.arange(blocks)[:, None] + np.arange(length)
