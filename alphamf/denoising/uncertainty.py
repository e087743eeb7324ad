"""Uncertainty of the output, the range of its level, and the time ranges with speech."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from alphamf.audio import stft
from alphamf.audio.stft import Complexes, Frame
from alphamf.denoising.grids import Grid
from alphamf.errors import AlphaMFError
from alphamf.tools.arguments import shown_value
from alphamf.tools.arrays import Array, Floats, Reals, parts


class Deviation(NamedTuple):
    """Constants of `deviation`, fitted to development clips (docs/quality.md)."""

    # scale, power, least: for a loud cell of gain g, scale * (g * (1 - g) + least) ** power.
    scale: float = 0.78
    power: float = 0.4
    least: float = 0.001
    # Power relative to the mean, at low frequencies, at which a cell counts as half faint: that of
    # the hiss of a good recording, which lies below all speech.
    faint: float = 0.001
    faint_std: float = 0.38  # Standard deviation of the gain of a faint cell
    # Frequency in Hz above which `faint` falls by 12 dB an octave, as speech and noise do.
    bend: float = 6000


CHOSEN = Deviation()
"""The constants of `deviation` that are used."""

ROWS = 64
"""Number of bins of a segment that are processed at a time."""

LOUDEST = np.float32(1e12)
"""Largest magnitude of a sample, in full scales; larger ones are clipped: powers would overflow."""


def output_gain(noisy: Complexes, speech: Complexes, least: np.float32) -> Floats:
    """Return the gain, from `least` to 1, that leads from a noisy spectrum to an output spectrum.

    `noisy`, `speech`: spectra of the sound and of the output, shape (bins, frames). Returns: shape
    (bins, frames).
    """

    def gain(noisy: Complexes, speech: Complexes) -> Floats:
        power = np.abs(noisy) ** 2
        shared = (speech * noisy.conj()).real
        found = np.divide(shared, power, out=np.zeros_like(power), where=power > 0)
        return np.clip(found, least, np.float32(1))

    return _by_rows(gain, noisy, speech)


def network_gain_std(power: Floats, gain: Floats, hertz: Reals) -> Floats:
    """Return the standard deviation of a gain predicted by networks; 0 where there is no sound.

    `power`, `gain`: |X|^2 of the sound, and the gain, shape (bins, frames). `hertz`: frequencies of
    the bins, shape (bins,).
    """
    mean = power.mean() + np.float32(1e-20)

    def known(power: Floats, gain: Floats, faint: Floats) -> Floats:
        return np.where(power > 0, deviation(gain, power / mean, faint), np.float32(0))

    return _by_rows(known, power, gain, faint_levels(hertz)[:, None])


def _by_rows(function: Callable[..., Floats], *arrays: Array) -> Floats:
    """Apply an elementwise function to some bins at a time, to limit memory."""
    found: Floats = np.empty(arrays[0].shape, arrays[0].real.dtype)
    for part in parts(len(arrays[0]), ROWS):
        found[part] = function(*(each[part] for each in arrays))
    return found


def faint_levels(hertz: Reals) -> Floats:
    """Return the power, relative to the mean, at which a cell counts as half faint.

    `hertz`: frequencies of cells in Hz, of any shape.
    """
    return (CHOSEN.faint / (1 + (hertz / CHOSEN.bend) ** 4)).astype(np.float32)


def deviation(gain: Floats, level: Floats, faint: Floats) -> Floats:
    """Return the expected root mean square error of gains predicted by networks.

    For a loud cell of gain g it grows with g (1 - g), the variance of a cell that is speech with
    probability g, noise otherwise. In faint cells, gains near 0 and near 1 are both often wrong.

    `level`: power of the cells over the mean, shape as `gain`. `faint`: as from `faint_levels`.
    """
    scale, power, least = (np.float32(each) for each in CHOSEN[:3])
    share = faint / (faint + level)
    loud = scale * (gain * (1 - gain) + least) ** power
    return np.sqrt((1 - share) * loud**2 + share * np.float32(CHOSEN.faint_std) ** 2)


def powers(audio: Floats, frame: Frame, frames: int) -> Floats:
    """Return the power per cell, scaled so that a frame's cells sum to its sound's mean square.

    `audio`: shape (samples, channels). `frame`: window and hop of the gain, in samples. `frames`:
    number of frames. Returns: shape (channels, bins, frames).
    """
    spectra = [stft.forward(sound, frame)[:, :frames] for sound in audio.clip(-LOUDEST, LOUDEST).T]
    unit = np.float32(frame.n_fft / 2)
    return np.stack([(np.abs(spectrum) / unit) ** 2 for spectrum in spectra])


def levels(power: Floats, gain: Floats, gain_std: Floats) -> Floats:
    """Return the power of the speech in each frame, with lower and upper ends.

    The gain of each cell is taken one standard deviation down and up, in all cells of a frame at
    once: the widest range that these deviations allow.

    `power`, `gain`, `gain_std`: shape (channels, bins, frames). Returns: lower end, middle and
    upper end, mean over channels, shape (frames, 3).
    """
    ends = (np.maximum(gain - gain_std, 0), gain, np.minimum(gain + gain_std, 1))
    return np.stack([(each**2 * power).sum(1).mean(0) for each in ends], 1)


BAND = (150.0, 4000.0)
"""Range of frequencies in Hz from which `probability` is computed."""

SPAN = 0.14
"""Seconds over which both features in `probability` are averaged."""

RATIO = (-3.0, 3.0)
"""Range to which the natural log of a frame's speech power over its noise power is clipped."""

LEVEL = (-8.0, 0.0)
"""Limits of the natural log of a frame's speech power over that of the loudest fifth of frames."""

WEIGHTS = (0.72, 0.40, 1.99)
"""Weights of both features in `probability`, and a constant: a logistic regression on ten voices
of LibriSpeech, at SNRs of 5 and 15 dB and without noise (docs/quality.md)."""

LEAST = 0.5
"""Minimum probability of a frame that counts as speech."""

PAUSE, SHORTEST = 0.3, 0.1
"""Limits in seconds: shorter pauses belong to the speech, and shorter speech is ignored."""


class SpeechRange(NamedTuple):
    """A time range with speech: `start` and `end` in seconds, and its mean `probability`.

    Examples
    --------
    >>> SpeechRange(start=0.5, end=2.0, probability=0.9).end
    2.0
    """

    start: float
    end: float
    probability: float


def probability(power: Floats, gain: Floats, grid: Grid) -> Floats:
    """Return the probability of speech in each frame of a segment, shape (frames,).

    `power`: |X|^2, shape (bins, frames). `gain`: gain of the speech, of the same shape, before
    `max_attenuation` limits it.
    """
    spacing = grid.rate / grid.frame.n_fft
    bins = slice(int(BAND[0] / spacing), int(BAND[1] / spacing) + 1)
    power, gain = power[bins].astype(float), gain[bins]
    tiny = 1e-9 * power.sum(axis=0).mean()
    if not tiny:
        return np.zeros(power.shape[1], np.float32)
    speech = (gain * power).sum(axis=0) + tiny
    noise = ((1 - gain) * power).sum(axis=0).clip(0) + tiny
    loud = np.sort(speech)[-max(1, len(speech) // 5) :].mean()
    ratio = averaged(np.log(speech / noise).clip(*RATIO), grid)
    level = averaged(np.log(speech / loud).clip(*LEVEL), grid)
    logit = WEIGHTS[0] * ratio + WEIGHTS[1] * level + WEIGHTS[2]
    return (1 / (1 + np.exp(-logit))).astype(np.float32)


def averaged(values: Reals, grid: Grid) -> Reals:
    """Return a running mean over `SPAN`; values at the ends are repeated."""
    reach = round(SPAN / 2 * grid.rate / grid.frame.hop_length)
    total = np.cumsum(np.pad(values, (reach + 1, reach), mode="edge"))
    width = 2 * reach + 1
    return (total[width:] - total[:-width]) / width


def _checked(name: str, values: Floats) -> Floats:
    try:
        array = np.asarray(values)
    except ValueError:  # rows of several lengths
        array = np.asarray(None)
    if (
        array.ndim != 1
        or array.dtype.kind not in "fiu"
        or np.ma.is_masked(values)
        or not np.isfinite(array).all()
    ):
        raise AlphaMFError(
            f"{name} must be an array of finite numbers, shape (frames,), not {shown_value(values)}"
        )
    return array


def speech_ranges(activity: Floats, frame_times: Floats) -> list[SpeechRange]:
    """Return the time ranges of a recording that contain speech.

    Parameters
    ----------
    activity
        Probability of speech in every frame, shape (frames,), as `Denoised.activity`.
    frame_times
        The middle of every frame in seconds, of the same shape.

    Returns
    -------
    list of SpeechRange
        In order, of 0.1 s or more each; pauses below 0.3 s are part of the speech around them.

    Raises
    ------
    AlphaMFError
        An argument is not an array of finite numbers, or the lengths differ.

    Examples
    --------
    >>> import numpy as np
    >>> activity = np.repeat([0.1, 0.9, 0.2], 50)
    >>> speech_ranges(activity, np.arange(150) * 0.02)
    [SpeechRange(start=0.99, end=1.99, probability=0.9)]
    """
    activity, frame_times = (
        _checked(name, values)
        for name, values in (("activity", activity), ("frame_times", frame_times))
    )
    if activity.shape != frame_times.shape:
        raise AlphaMFError(
            f"activity and frame_times must be of one length, not {len(activity)} and "
            f"{len(frame_times)}"
        )
    if len(activity) < 2:
        return []
    half = (frame_times[1] - frame_times[0]) / 2
    on = np.flatnonzero(activity >= LEAST)
    if not len(on):
        return []
    breaks = np.flatnonzero(np.diff(frame_times[on]) - 2 * half >= PAUSE)
    firsts, lasts = on[np.r_[0, breaks + 1]], on[np.r_[breaks, len(on) - 1]]
    return [
        SpeechRange(
            float(max(0.0, frame_times[first] - half)),
            float(frame_times[last] + half),
            float(activity[first : last + 1].mean()),
        )
        for first, last in zip(firsts, lasts, strict=True)
        if frame_times[last] - frame_times[first] + 2 * half >= SHORTEST
    ]
