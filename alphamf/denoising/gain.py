"""The chain of gains: six links, in order, from a posterior to clean speech.

1. `posterior_mean`: posterior mean of the speech's Wiener gain, and its standard deviation. Without
   networks, channels that share a voice have those of one posterior (`components`).
2. `refine_gain`: a network (the refiner) reads the posterior and predicts a new gain.
3. `native_gain`: interpolates the gain from the dictionary's grid to the recording's own. Above the
   dictionary's band, it is that of the wide bands (`high_bands`).
4. `limit_attenuation`: no gain is below that of the largest attenuation. Channels that share a
   voice get one spatial filter in place of their gains (`spatial`).
5. `correct_speech`: a network corrects the speech in windows of 16 ms, within the limit; another
   one predicts the gains above its band (the second stage, `coefficients`). What is no louder than
   the pauses of a nearly clean recording is attenuated (`faint_noise`).
6. `mix_dry`: mixes a part of the input in.

Segments are continued by their mirror images first (`segments.continue_mirrored`), which are cut
off before link 6. Where echo is removed, the late reverberation is taken away before the first
link (`late_reverberation`), and link 5 has another network, the dereverberator.

`estimate.sample_gains` applies links 1 and 2 to each channel, `estimate.estimate_speech` links 3 to
5 to the channels of a segment, and `segments` link 6 after the crossfade. Training calls the same
functions, so that a network is used on what it was trained on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from alphamf.audio import stft
from alphamf.denoising import high_bands, spatial
from alphamf.denoising.agreement import Agreement
from alphamf.denoising.coefficients import apply_coefficients, coefficients, shared_coefficients
from alphamf.denoising.faint_noise import faint_noise_gain
from alphamf.denoising.grids import Spectra, grid_of, interpolate_frames, native_grid, regrid
from alphamf.denoising.posterior import Posterior
from alphamf.denoising.settings import Settings
from alphamf.denoising.weights import Weights
from alphamf.learnt.dictionary import Dictionary
from alphamf.learnt.refiner import Refiner
from alphamf.learnt.second_stage import SecondStage
from alphamf.tools.arrays import Array, Floats

MEAN_WEIGHT = np.float32(0.25)
"""Weight of the posterior mean beside the refined gain in linked channels: the two err in different
cells, also of other channels (docs/quality.md)."""


class SegmentPosterior(NamedTuple):
    """The posterior of a segment of one channel, and its gain after links 1 and 2."""

    # The segment that was sampled, scaled: without its late reverberation, if that is removed.
    spectra: Spectra
    scale: np.float32  # The factor that it was scaled by, a power of two
    # gain, gain_std: gain after link 2, and the standard deviation of link 1, on the dictionary's
    # grid; shape (bins, frames).
    gain: Floats
    gain_std: Floats
    mean: Floats  # Gain after link 1, of the same shape
    # Posterior of the wide bands above the dictionary that have sound, shape (bands, frames).
    high: Posterior
    # How well several chains agree; None for a single chain, and for digital silence.
    agreement: Agreement | None = None
    # The segment with the late reverberation in the dictionary's band; None: it is in `spectra`.
    with_echo: Spectra | None = None
    dereverb: float = 0.0  # Proportion of the echo that is removed

    @property
    def whole(self) -> Spectra:
        """The segment as it came, but for late reverberation above the dictionary's band."""
        return self.spectra if self.with_echo is None else self.with_echo


def posterior_mean(posterior: Posterior) -> tuple[Array, Array]:
    """Apply link 1: return the posterior mean of the gain, and its standard deviation."""
    return posterior.gain, posterior.gain_std


def refine_gain(power: Array, posterior: Posterior, refiner: Refiner | None) -> Array:
    """Apply link 2: return the gain that the refiner predicts from the posterior.

    `power`: |X|^2 that the posterior is given, shape (..., bins, frames). `posterior`: arrays of
    the same shape.
    """
    if refiner is None:
        return posterior.gain
    return refiner.refine(
        power,
        gain=posterior.gain,
        gain_std=posterior.gain_std,
        speech=posterior.speech,
        noise=posterior.noise,
    )


def native_gain(channel: SegmentPosterior, model: Dictionary) -> tuple[Floats, Floats]:
    """Apply link 3: return the gain and its standard deviation on the recording's own grid."""
    spectra, high = channel.spectra, channel.high
    grid, native = grid_of(model), native_grid(model, spectra.rate)
    frames = spectra.spectrum_on(native).shape[1]
    gain, gain_std = (
        high_bands.spread_band_gains(
            interpolate_frames(rows, grid, native, frames),
            _regrid_to_native(each, spectra, model),
            native,
        )
        for rows, each in ((high.gain, channel.gain), (high.gain_std, channel.gain_std))
    )
    return gain, gain_std


def _regrid_to_native(values: Floats, spectra: Spectra, model: Dictionary) -> Floats:
    """Interpolate a gain of the dictionary's bins to the segment's own grid."""
    native = native_grid(model, spectra.rate)
    return regrid(values, grid_of(model), native, spectra.spectrum_on(native).shape)


def least_gain(settings: Settings) -> np.float32:
    """Return the gain of the largest attenuation, or 0 if there is no limit."""
    limit = np.inf if settings.max_attenuation is None else settings.max_attenuation
    return np.float32(10 ** (-limit / 20))


def limit_attenuation(
    channels: Sequence[SegmentPosterior],
    gains: Sequence[Floats],
    least: np.float32,
    model: Dictionary,
    *,
    refined: bool = True,
) -> list[Floats]:
    """Apply link 4: return the speech of each channel, attenuated within the limit.

    `gains`: gain of each channel after link 3, shape (bins, frames). Returns: shape (samples,)
    each.
    """
    native = native_grid(model, channels[0].spectra.rate)
    spectra = [each.spectra.spectrum_on(native) for each in channels]
    if len(channels) == 1:
        found = [spectra[0] * (np.maximum(gains[0], least) if least else gains[0])]
    else:
        mixed: Floats = np.stack(gains)
        if refined:
            means = [_regrid_to_native(each.mean, each.spectra, model) for each in channels]
            mixed = mixed ** (1 - MEAN_WEIGHT) * np.stack(means) ** MEAN_WEIGHT
        else:
            mixed = mixed**2
        if len(channels[0].high.gain):
            # The posterior of the wide bands says less about a voice's place than the bins below.
            mixed = high_bands.extend_gains_upwards(mixed, native)
        stacked = np.stack(spectra)
        found = list(spatial.speech(stacked, mixed))
        if least:
            lowest = [least * each.whole.spectrum_on(native) for each in channels]
            found = [
                np.where(np.abs(one) < np.abs(low), low, one)
                for one, low in zip(found, lowest, strict=True)
            ]
    return [stft.inverse(each, native.frame, len(channels[0].spectra.sound)) for each in found]


def correct_speech(
    channels: Sequence[SegmentPosterior],
    speech: Sequence[Floats],
    network: SecondStage,
    weights: Weights,
    least: np.float32,
    xp: Any,
) -> list[Floats]:
    """Apply link 5: return the speech of each channel, corrected by the second stage.

    `speech`: after link 4, shape (samples,) each.
    """
    noisy = [each.whole for each in channels]
    firsts = [Spectra(one, each.rate) for one, each in zip(speech, noisy, strict=True)]
    highs = [each.high for each in channels]
    if len(channels) == 1:
        factors = coefficients(noisy[0], firsts[0], highs[0], network, weights, xp)
    else:
        factors = shared_coefficients(noisy, firsts, highs, network, weights, xp)
    native = native_grid(network, noisy[0].rate)
    faint = faint_noise_gain([each.spectrum_on(native) for each in noisy])
    return [
        apply_coefficients(*each, factors, network, least, faint)
        for each in zip(noisy, firsts, strict=True)
    ]


def mix_dry(audio: Floats, speech: Floats, settings: Settings) -> Floats:
    """Apply link 6: mix a part of the input into the speech.

    `audio`, `speech`: input, and speech after link 5; shape (samples, channels).
    """
    mixed: Floats = settings.dry * audio + (1 - settings.dry) * speech
    return mixed
