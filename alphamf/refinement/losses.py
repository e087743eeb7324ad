"""What learning minimises, in JAX: how far the refiner is from the clean speech."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from alphamf.arrays import Array
from alphamf.refinement import network
from alphamf.refinement.mixtures import Clip
from alphamf.stft import Floats

SEGMENT = 24
"""Frames of an envelope that is compared: 384 ms where they are 16 ms apart, as in ESTOI."""

LOWEST, BANDS = 150.0, 15
"""Centre of the lowest third of an octave in Hz, and most bands, as in ESTOI."""


class Losses(NamedTuple):
    """What is minimised, each a mean over clips.

    Attributes
    ----------
    distortion
        Log of the squared error over the clean speech's power. Times -10 / log(10) it is the
        signal-to-distortion ratio in dB, which SI-SDR follows; beyond 30 dB nothing is gained.
    compression
        Mean squared error of the magnitudes to the power of 0.3, over the mean square of the clean
        speech's. Faint cells count nearly as much as loud ones, as they do for the ear and PESQ.
    envelopes
        One minus the correlation of the envelopes in thirds of an octave, each normalised over a
        segment and then over the bands, as ESTOI does (Jensen and Taal, IEEE/ACM TASLP 24, 2016).
    likelihood
        Minus the log likelihood of the true gain under a Gaussian of the mean and the standard
        deviation that the network says, for the latter's sake only: the mean is held fixed.
    """

    distortion: Array
    compression: Array
    envelopes: Array
    likelihood: Array


def third_octaves(bins: int, rate: int) -> Floats:
    """Return which bins belong to which band, 0 or 1, shape (bins, bands)."""
    frequencies = np.arange(bins) * (rate / 2 / (bins - 1))
    edges = LOWEST * 2 ** ((np.arange(BANDS + 1) - 0.5) / 3)
    edges = edges[: 1 + np.searchsorted(edges, rate / 2)]
    inside = (frequencies[:, None] >= edges[:-1]) & (frequencies[:, None] < edges[1:])
    return inside.astype(np.float32)


def losses(parameters: dict[str, Array], clips: Clip, bands: Array, levels: Array = 0.0) -> Losses:
    """Compute the losses of the network.

    Parameters
    ----------
    parameters
        As `alphamf.refinement.network.start` makes them.
    clips
        Each array has clips as its first axis.
    bands
        As `third_octaves` makes them.
    levels
        Log power that is added to all cells that the network reads, of a shape that broadcasts to
        (clips, bins, frames). The true gain does not depend on it.
    """
    noisy, clean, gain, gain_std, log_speech, log_noise = (
        each.astype(jnp.float32) for each in clips
    )
    power = (noisy * noisy).sum(1) + network.SILENT
    read = network.features(
        jnp.log(power) + levels,
        gain,
        gain_std,
        log_speech + levels,
        log_noise + levels,
        jnp,
    )
    logit, log_std = (
        jnp.swapaxes(each, 1, 2)
        for each in network.forward(parameters, read, jnp, convolve=_convolve)
    )
    said = network.logistic(logit, jnp)
    error = ((clean - said[:, None] * noisy) ** 2).sum((1, 2, 3))
    whole = (clean * clean).sum((1, 2, 3)) + 1e-3
    distortion = jnp.log(error / whole + 1e-3)
    # Both magnitudes are about 3e-4, -70 dB, where there is silence: the root's slope is finite.
    loud = jnp.sqrt((clean * clean).sum(1) + 1e-7)
    said_loud = said * jnp.sqrt(power) + 3e-4
    compression = ((loud**0.3 - said_loud**0.3) ** 2).mean((1, 2)) / (loud**0.6).mean((1, 2))
    envelopes = 1 - _similarity(
        jnp.swapaxes((clean * clean).sum(1), 1, 2) @ bands,
        jnp.swapaxes(said * said * power, 1, 2) @ bands,
    )
    true = jnp.clip((clean * noisy).sum(1) / power, 0, 1)
    square = lax.stop_gradient((true - said) ** 2)
    likelihood = log_std + 0.5 * square * jnp.exp(-2 * log_std)
    return Losses(distortion.mean(), compression.mean(), envelopes.mean(), likelihood.mean())


def _similarity(clean: Array, said: Array) -> Array:
    """Correlate the envelopes of two powers of shape (clips, frames, bands); shape (clips,)."""
    count, frames, bands = clean.shape
    segments = max(1, frames // SEGMENT)
    length = min(frames, SEGMENT)
    # Where there is next to no speech there is nothing to be understood.
    least = 1e-3 * clean.mean((1, 2)) + 1e-6

    def normalised(power: Array) -> Array:
        floor = jnp.sqrt(least)[:, None, None, None]
        envelope = jnp.sqrt(power[:, : segments * length] + least[:, None, None] * 1e-2)
        rows = envelope.reshape(count, segments, length, bands)
        for axis in (2, 3):
            rows = rows - rows.mean(axis, keepdims=True)
            size = jnp.sqrt(
                (rows * rows).mean(axis, keepdims=True) + (floor if axis == 2 else 0.1) ** 2
            )
            rows = rows / size
        return rows

    return (normalised(clean) * normalised(said)).mean((1, 2, 3))


def _convolve(cells: Array, weight: Array, bias: Array, apart: int, xp: Any) -> Array:
    """Do the work of `network.correlate`."""
    found = lax.conv_general_dilated(
        cells,
        weight,
        (1, 1),
        "SAME",
        rhs_dilation=(1, apart),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    return found + bias
