"""What learning minimises, in JAX: how far the refiner is from the clean speech."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from alphamf.audio.stft import Frame
from alphamf.learnt import network, second_stage
from alphamf.tools.arrays import Array
from alphamf.training.refiner.intelligibility import estoi
from alphamf.training.refiner.intelligibility import forward as spectra
from alphamf.training.refiner.mixtures import Clip, Look


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
    intelligibility
        One minus ESTOI, as `alphamf.training.refiner.intelligibility` has it.
    likelihood
        Minus the log likelihood of the true gain under a Gaussian of the mean and the standard
        deviation that the network says, for the latter's sake only: the mean is held fixed.
    """

    distortion: Array
    compression: Array
    intelligibility: Array
    likelihood: Array


def losses(
    parameters: dict[str, Array], clips: Clip, levels: Array = 0.0, *, frame: Frame, rate: int
) -> Losses:
    """Compute the losses of the network.

    Parameters
    ----------
    parameters
        As `alphamf.learnt.network.start` makes them.
    clips
        Each array has clips as its first axis.
    levels
        Log power that is added to all cells that the network reads, of a shape that broadcasts to
        (clips, bins, frames). The true gain does not depend on it.
    frame, rate
        Of the clips.
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
    away = _away(_complex(clean), said * _complex(noisy), frame, rate)
    true = jnp.clip((clean * noisy).sum(1) / power, 0, 1)
    square = lax.stop_gradient((true - said) ** 2)
    likelihood = log_std + 0.5 * square * jnp.exp(-2 * log_std)
    return Losses(*away, likelihood.mean())


def fine_losses(
    parameters: dict[str, Array], looks: Look, levels: Array = 0.0, *, frame: Frame, rate: int
) -> Losses:
    """Compute the losses of a network for second looks, which says no deviation.

    Parameters
    ----------
    parameters, levels, rate
        As in `losses`.
    looks
        Each array has clips as its first axis.
    frame
        Of the second look.
    """
    noisy, first, clean = (spectra(each.astype(jnp.float32), frame) for each in looks)
    unit = jnp.sqrt(_power(noisy).mean((1, 2), keepdims=True))
    noisy, first, clean = (each / unit for each in (noisy, first, clean))
    read = second_stage.features(noisy, first, levels, jnp)
    sound, speech = second_stage.outputs(parameters, read, jnp, convolve=_convolve)
    said = sound * noisy + speech * first
    return Losses(*_away(clean, said, frame, rate), jnp.zeros(()))


def _away(clean: Array, said: Array, frame: Frame, rate: int) -> tuple[Array, Array, Array]:
    """Return the first three losses of spectra, shape (clips, bins, frames)."""
    error, whole = (_power(each).sum((1, 2)) for each in (clean - said, clean))
    distortion = jnp.log(error / (whole + 1e-3) + 1e-3)
    # Both magnitudes are about 3e-4, -70 dB, where there is silence: the root's slope is finite.
    loud, said_loud = (jnp.sqrt(_power(each) + 1e-7) for each in (clean, said))
    compression = ((loud**0.3 - said_loud**0.3) ** 2).mean((1, 2)) / (loud**0.6).mean((1, 2))
    intelligibility = 1 - estoi(clean, said, frame, rate)
    return distortion.mean(), compression.mean(), intelligibility.mean()


def _power(spectra: Array) -> Array:
    return spectra.real**2 + spectra.imag**2


def _complex(spectra: Array) -> Array:
    return spectra[:, 0] + 1j * spectra[:, 1]


def _convolve(cells: Array, weight: Array, bias: Array, apart: tuple[int, int], xp: Any) -> Array:
    """Do the work of `network.correlate`."""
    found = lax.conv_general_dilated(
        cells,
        weight,
        (1, 1),
        "SAME",
        rhs_dilation=apart,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    return found + bias
