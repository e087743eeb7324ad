"""Losses of both networks, in JAX: distances of their output from the clean speech."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from alphamf.audio.stft import Frame
from alphamf.learnt import layers, network, second_stage
from alphamf.tools.arrays import Array
from alphamf.training.refiner.clips import FirstStageClip, SecondStageClip
from alphamf.training.refiner.intelligibility import estoi
from alphamf.training.refiner.intelligibility import forward as spectra


class Losses(NamedTuple):
    """Terms of the objective, each a mean over clips.

    Attributes
    ----------
    distortion
        Log of the squared error over the clean speech's power. Times -10 / log(10) it is the
        signal-to-distortion ratio in dB; it saturates at 30 dB.
    compression
        Mean squared error of the magnitudes to the power of 0.3, over the mean square of the clean
        speech's: the compression weights faint cells nearly as much as loud ones.
    intelligibility
        One minus ESTOI, as `alphamf.training.refiner.intelligibility` computes it.
    likelihood
        Minus the log likelihood of the true gain under a Gaussian with the predicted mean and
        standard deviation; no gradient passes through the mean.
    """

    distortion: Array
    compression: Array
    intelligibility: Array
    likelihood: Array


def first_stage_losses(
    parameters: dict[str, Array],
    clips: FirstStageClip,
    levels: Array | float = 0.0,
    *,
    frame: Frame,
    rate: int,
) -> Losses:
    """Compute the losses of the refiner's network.

    Parameters
    ----------
    parameters
        As `alphamf.learnt.network.start` makes them.
    clips
        Each array has clips as its first axis.
    levels
        Log power that is added to the network's input, of a shape that broadcasts to
        (clips, bins, frames). The true gain does not depend on it.
    frame, rate
        STFT frame and sampling rate in Hz of the clips.

    Returns
    -------
    Losses
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
    found = network.outputs(parameters, read, jnp, convolve=_convolve)
    logit, log_std = (jnp.swapaxes(each, 1, 2) for each in network.logits(found, read, jnp))
    predicted = layers.logistic(logit, jnp)
    distances = _distances(_complex(clean), predicted * _complex(noisy), frame, rate)
    true = jnp.clip((clean * noisy).sum(1) / power, 0, 1)
    square = lax.stop_gradient((true - predicted) ** 2)
    likelihood = log_std + 0.5 * square * jnp.exp(-2 * log_std)
    return Losses(*distances, likelihood.mean())


def second_stage_losses(
    parameters: dict[str, Array],
    clips: SecondStageClip,
    levels: Array | float = 0.0,
    *,
    frame: Frame,
    rate: int,
) -> Losses:
    """Compute the losses of a second-stage network, which predicts no deviation.

    Parameters
    ----------
    parameters, levels, rate
        As in `first_stage_losses`.
    clips
        Each array has clips as its first axis.
    frame
        STFT frame of the second stage.

    Returns
    -------
    Losses
    """
    noisy, first, clean = (spectra(each.astype(jnp.float32), frame) for each in clips)
    unit = jnp.sqrt(_power(noisy).mean((1, 2), keepdims=True))
    noisy, first, clean = (each / unit for each in (noisy, first, clean))
    read = second_stage.features(noisy, first, levels, jnp)
    found = network.outputs(parameters, read, jnp, convolve=_convolve)
    sound, speech = second_stage.coefficients(found, jnp)
    estimate = sound * noisy + speech * first
    return Losses(*_distances(clean, estimate, frame, rate), jnp.zeros(()))


def _distances(
    clean: Array, estimate: Array, frame: Frame, rate: int
) -> tuple[Array, Array, Array]:
    """Return the first three losses for spectra of shape (clips, bins, frames)."""
    error, whole = (_power(each).sum((1, 2)) for each in (clean - estimate, clean))
    distortion = jnp.log(error / (whole + 1e-3) + 1e-3)
    # The offset bounds the gradient of the root at silence: both magnitudes are 3e-4, -70 dB.
    loud, estimated = (jnp.sqrt(_power(each) + 1e-7) for each in (clean, estimate))
    compression = ((loud**0.3 - estimated**0.3) ** 2).mean((1, 2)) / (loud**0.6).mean((1, 2))
    intelligibility = 1 - estoi(clean, estimate, frame, rate)
    return distortion.mean(), compression.mean(), intelligibility.mean()


def _power(spectra: Array) -> Array:
    power: Array = spectra.real**2 + spectra.imag**2
    return power


def _complex(spectra: Array) -> Array:
    return spectra[:, 0] + 1j * spectra[:, 1]


def _convolve(cells: Array, weight: Array, bias: Array, apart: tuple[int, int], xp: Any) -> Array:
    """Compute what `layers.correlate` does, by one call into XLA."""
    found = lax.conv_general_dilated(
        cells,
        weight,
        (1, 1),
        "SAME",
        rhs_dilation=apart,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    result: Array = found + bias
    return result
