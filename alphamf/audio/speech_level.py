"""Active speech level, which excludes pauses, and how far pauses lie below the speech."""

import math

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Floats

TIME_CONSTANT = 0.03
"""Time constant of the two exponential averages that form the envelope, in seconds."""

HANGOVER = 0.2
"""Time in seconds for which speech counts as active after its envelope fell below the threshold."""

MARGIN_DB = 15.9
"""Distance in dB of the threshold below the active level."""

FRAME = 0.02
"""Length of a frame of `pause_depth`, in seconds."""

DEEPEST_DB = 100.0
"""Frames this many dB below the loudest one, or more, count as digital silence."""

QUIET_PAUSES_DB = 50.0
"""Depth of pauses in dB from which on a recording can serve as speech without noise.

If a reference has white hiss at this depth, a denoiser that removes the hiss and nothing else has a
PESQ of 4.0 instead of 4.64; at 40 dB it has 2.9 (``python -m benchmarks.quality hiss``). A larger
depth would leave few clips: half of ``speech-16k`` and a tenth of LibriSpeech reach this one.
"""

_OCTAVES = 40


def active_power(audio: Floats, rate: int) -> float:
    r"""Return the mean square of active speech: method B of ITU-T P.56.

    The envelope :math:`q` is :math:`|x|` after two exponential averages. With a threshold
    :math:`c`, :math:`a(c)` samples are active: those where :math:`q` is at least :math:`c`, or
    was so within the last 0.2 s. The active level is

    .. math:: A = 10 \log_{10} \frac{\sum x^2}{a(c)} \quad\text{at the } c \text{ where}\quad
       A - 20 \log_{10} c = 15.9\ \text{dB},

    found by linear interpolation in dB between thresholds that are powers of two. The standard's
    reach from 2^-15 to 2^-1 of full scale; here they follow the signal, so that the level of soft
    or loud floating-point audio can be measured, too. A constant offset is removed first. If a
    signal is scaled by a factor that is not a power of two, the interpolation causes an error of up
    to 0.3 dB in the change of its level.

    Parameters
    ----------
    audio
        Speech, shape (samples,).
    rate
        Samples per second.

    Returns
    -------
    float
        Mean square; ``10 * log10`` of it is the active level in dB.

    Raises
    ------
    AlphaMFError
        The audio is silent, or too short for the envelope to rise.

    References
    ----------
    ITU-T Recommendation P.56 (12/2011), "Objective measurement of active speech level", clause 5
    and annex.

    Examples
    --------
    >>> import numpy as np
    >>> burst = np.random.default_rng(0).standard_normal(8000)
    >>> speech = np.concatenate([burst, np.zeros(24000)])  # three quarters are a pause
    >>> active_power(speech, 8000) > 3 * np.mean(speech**2)
    np.True_
    """
    from scipy.ndimage import maximum_filter1d
    from scipy.signal import lfilter

    x = audio - np.mean(audio, dtype=np.float64)
    decay = math.exp(-1 / (rate * TIME_CONSTANT))
    envelope = np.abs(x)
    for _ in range(2):
        envelope = lfilter([1 - decay], [1, -decay], envelope)
    # A sample is active where the largest q of the time before reaches the threshold.
    past = math.ceil(HANGOVER * rate)
    maximum_filter1d(
        envelope, past + 1, output=envelope, mode="constant", cval=0, origin=past - (past + 1) // 2
    )
    top = envelope.max()
    if top > 0:
        thresholds = 2.0 ** (math.floor(math.log2(top)) + np.arange(-_OCTAVES, 1))
        envelope.sort()
        active = len(x) - np.searchsorted(envelope, thresholds)
        level = 10 * np.log10((x @ x) / active)
        above = level - 20 * np.log10(thresholds) - MARGIN_DB
        within = np.flatnonzero(above <= 0)
        if within.size and within[0]:
            before, after = within[0] - 1, within[0]
            fraction = above[before] / (above[before] - above[after])
            return float(10 ** ((level[before] + fraction * (level[after] - level[before])) / 10))
    raise AlphaMFError(
        "the active speech level needs speech that is not silent and lasts about 0.1 s or more"
    )


def pause_depth(audio: Floats, rate: int) -> float:
    """Return by how many dB the pauses of a recording lie below its speech.

    This is the distance between the 10th and the 90th percentile of the levels of frames of 20 ms,
    each without its mean. Digital silence at the ends, such as padding, is left out; elsewhere it
    counts as `DEEPEST_DB` below the loudest frame.

    Parameters
    ----------
    audio
        Speech, shape (samples,).
    rate
        Samples per second.

    Returns
    -------
    float
        From 0 to `DEEPEST_DB`; NaN if no frame contains sound. If fewer than a tenth of the frames
        are pauses, because the clip is cut closely, this is the depth of its weak speech.

    Examples
    --------
    >>> import numpy as np
    >>> hiss = np.random.default_rng(0).standard_normal(8000)
    >>> round(pause_depth(np.concatenate([hiss, 0.01 * hiss]), 8000), -1)
    40.0
    """
    size = max(1, round(FRAME * rate))
    frames = audio[: len(audio) // size * size].reshape(-1, size)
    power = frames.var(axis=1, dtype=np.float64)
    floor = power.max(initial=0) * 10 ** (-DEEPEST_DB / 10)
    sound = np.flatnonzero(power > floor)
    if not sound.size:
        return math.nan
    levels = 10 * np.log10(np.maximum(power[sound[0] : sound[-1] + 1], floor))
    low, high = np.percentile(levels, (10, 90))
    return float(high - low)
