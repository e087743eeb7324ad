"""ESTOI as learning needs it: in JAX, so that its slope is at hand, and of spectra."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from alphamf.audio.stft import Frame, frame_count, sqrt_hann
from alphamf.tools.arrays import Array, Floats

WINDOW = 0.0256
"""Of the analysis, in seconds; the next begins after half of it."""

SEGMENT, STEP = 30, 3
"""Frames of an envelope that is compared, and until the next begins. ESTOI takes every one."""

LOWEST, BANDS = 150.0, 15
"""Centre of the lowest third of an octave in Hz, and most bands."""

SILENT = 1e-4
"""Energy, in that of the loudest frame, below which a frame of the clean sound is passed over."""

SOFT = 0.05
"""Size of an envelope, in that of the clean one, that is added to what is said: where next to
nothing is said the slope stays finite."""


def third_octaves(bins: int, rate: int) -> Floats:
    """Return which bins belong to which band, 0 or 1, shape (bins, bands)."""
    frequencies = np.arange(bins) * (rate / 2 / (bins - 1))
    edges = LOWEST * 2 ** ((np.arange(BANDS + 1) - 0.5) / 3)
    edges = edges[: 1 + np.searchsorted(edges, rate / 2)]
    inside = (frequencies[:, None] >= edges[:-1]) & (frequencies[:, None] < edges[1:])
    return inside.astype(np.float32)


def forward(sounds: Array, frame: Frame) -> Array:
    """Do the work of `alphamf.audio.stft.forward`.

    Parameters
    ----------
    sounds
        Shape (clips, samples).

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
    """Do the work of `alphamf.audio.stft.inverse` on the stretch that whole windows cover.

    Parameters
    ----------
    spectra
        Shape (clips, bins, frames), complex.

    Returns
    -------
    ndarray
        Shape (clips, (frames - 1) * hop_length); half a window is lost at both ends.
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


def estoi(clean: Array, said: Array, frame: Frame, rate: int) -> Array:
    """Correlate envelopes in thirds of an octave over 384 ms, as ESTOI does.

    Envelopes of the clean sound's frames that are not silent are freed of their mean and divided
    by their size, over the frames of a segment and then over the bands, and multiplied (Jensen and
    Taal, IEEE/ACM TASLP 24, 2016, equations 3 to 7). The sound keeps its rate, and silent frames
    are left out of the spectra, not of the sound: what differs is below .01.

    Parameters
    ----------
    clean, said
        Spectra, shape (clips, bins, frames), complex.
    frame, rate
        Of the spectra.

    Returns
    -------
    ndarray
        Shape (clips,); 0 where there is less than a segment of sound.
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
    heard = energy > SILENT * energy.max(1, keepdims=True)
    order = jnp.argsort(~heard, axis=1, stable=True)[..., None]
    segment = min(SEGMENT, power.shape[1])
    places = _places((power.shape[1] - segment) // STEP + 1, segment, STEP)
    counts = (places[:, -1] < heard.sum(1, keepdims=True)).astype(power.dtype)

    ours, theirs = power @ bands, analysed(said) @ bands
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
    """Return the places of the samples of every block, shape (blocks, length)."""
    return step * np.arange(blocks)[:, None] + np.arange(length)
