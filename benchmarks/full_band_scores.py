"""Scores of what a denoiser does from 8 to 20 kHz, beside a clean recording at 48 kHz.

Levels are in dB below the active level of the clean speech (ITU-T P.56), in Hann windows of 21 ms
every 11 ms. `FLOOR` in a band of 1 kHz is what is hardly heard: 15 dB SPL under speech of 65 dB
SPL, the threshold of hearing at 10 kHz (ISO 226). A frame is *active* where the clean speech has at
least `ACTIVE` from 8 to 20 kHz. It is a *pause* where neither it nor its neighbours are active, and
the speech has less than `PAUSE` over all frequencies; without the latter, it is *voiced*.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from alphamf.audio.speech_level import active_power
from alphamf.audio.stft import Complexes, Frame, forward, sqrt_hann
from alphamf.scores.score import si_sdr
from alphamf.tools.arrays import Floats

RATE = 48000
FRAME = Frame(1024, 512)
WINDOW = sqrt_hann(FRAME.n_fft) ** 2
LOW, HIGH, WIDTH = 8000, 20000, 1000
"""The band in Hz, and the width of its parts."""

FLOOR, ACTIVE, PAUSE = -50.0, -45.0, -30.0
AROUND = 2
"""Neighbours on each side of a frame that is no active one."""

SEGMENTAL = (-10.0, 35.0)
"""Least and largest SNR of a frame in dB."""

QUIETEST, NOISIEST = -70.0, -40.0
"""Levels from 8 to 20 kHz in dB: what is below the first counts as that, and a noisy sound must
have the second for what is left of it to be scored."""

SIBILANT, FRICATIVE = 6000, 4000
"""In Hz: most of the energy of such a sound is above."""

MOST = 20.0
"""Largest change of level of a frame in dB."""

FEWEST = 3
"""Frames that a score needs."""

Flags = NDArray[np.bool_]


class Scores(NamedTuple):
    """Scores of one clip in dB; NaN where it has too few frames of the kind.

    Attributes
    ----------
    si_sdr
        Of all frequencies.
    segmental_snr
        From 8 to 20 kHz: the ratio of the clean speech's energy to that of the error in each active
        frame, within `SEGMENTAL`; the mean. Silence has 0.
    distance
        Log-spectral distance from 8 to 20 kHz: root of the mean square over bands of the difference
        of levels, which are at least `FLOOR`; mean over active frames. Only bands up to the highest
        that the clean speech ever fills count: speech that ends at 16 kHz is compared up to there.
    left, left_in_voice
        Level from 8 to 20 kHz in pauses, and in voiced frames, against that of the noisy sound: the
        ratio of mean energies, which are at least `QUIETEST`. NaN where the noisy sound has less
        than `NOISIEST` there.
    sibilants
        Level from 8 to 20 kHz against that of the clean speech, within `MOST` in each frame: mean
        over active frames in which the clean speech has more energy above 6 kHz than below.
    fricatives
        The same where it has more above 4 kHz than below, as in most voices' sibilants.
    sibilants_together
        Level from 8 to 20 kHz of all frames of `sibilants` together, the ratio of their energies:
        faint ones count less.
    """

    si_sdr: float
    segmental_snr: float
    distance: float
    left: float
    left_in_voice: float
    sibilants: float
    fricatives: float
    sibilants_together: float


def scores(clean: Floats, noisy: Floats, found: Floats) -> Scores:
    """Return the scores of a denoised sound.

    Parameters
    ----------
    clean, noisy, found
        Shape (samples,), at 48 kHz.
    """
    scale = np.float32(1 / np.sqrt(active_power(clean, RATE) * (WINDOW**2).sum() * FRAME.n_fft / 2))
    speech, mixed, output = (
        forward(np.asarray(sound * scale, np.float32), FRAME, WINDOW)
        for sound in (clean, noisy, found)
    )
    kinds = frames(speech)
    return Scores(
        si_sdr(clean, found),
        segmental_snr(speech, output, kinds.active),
        distance(speech, output, kinds.active),
        left(mixed, output, kinds.pause),
        left(mixed, output, kinds.voiced),
        change(speech, output, kinds.sibilant),
        change(speech, output, kinds.fricative),
        change_together(speech, output, kinds.sibilant),
    )


class Frames(NamedTuple):
    """Which frames are of which kind, shape (frames,)."""

    active: Flags
    pause: Flags
    voiced: Flags
    sibilant: Flags
    fricative: Flags


def frames(speech: Complexes) -> Frames:
    """Return the kinds of the frames of clean speech, shape (bins, frames), by its levels."""
    active = levels(speech) >= ACTIVE
    quiet = np.convolve(active, np.ones(2 * AROUND + 1), "same") == 0
    soft = levels(speech, 0, RATE / 2) < PAUSE
    sibilant, fricative = (
        active & (levels(speech, edge, RATE / 2) > levels(speech, 0, edge))
        for edge in (SIBILANT, FRICATIVE)
    )
    return Frames(active, quiet & soft, quiet & ~soft, sibilant, fricative)


def levels(spectra: Complexes, low: float = LOW, high: float = HIGH) -> Floats:
    """Return the level of each frame between two frequencies in Hz."""
    found: Floats = 10 * np.log10(np.maximum(_energy(spectra, low, high), 1e-20))
    return found


def _energy(spectra: Complexes, low: float, high: float) -> Floats:
    first, end = (round(edge / RATE * FRAME.n_fft) for edge in (low, high))
    energy: Floats = (np.abs(spectra[first:end]) ** 2).sum(axis=0)
    return energy


def segmental_snr(speech: Complexes, output: Complexes, active: Flags) -> float:
    """Return the attribute of `Scores` of this name."""
    ratio = levels(speech) - levels(speech - output)
    return _mean(np.clip(ratio, *SEGMENTAL)[active])


def distance(speech: Complexes, output: Complexes, active: Flags) -> float:
    """Return the attribute of `Scores` of this name."""
    bands = [(low, low + WIDTH) for low in range(LOW, HIGH, WIDTH)]
    wanted, found = (
        np.maximum([levels(each, *band) for band in bands], FLOOR) for each in (speech, output)
    )
    filled = np.flatnonzero((wanted > FLOOR).sum(axis=1) >= FEWEST)
    if not len(filled):
        return float("nan")
    apart = (wanted - found)[: filled[-1] + 1, active]
    return _mean(np.sqrt((apart**2).mean(axis=0)))


def left(mixed: Complexes, output: Complexes, where: Flags) -> float:
    """Return `Scores.left` or `Scores.left_in_voice`, by the frames."""
    if where.sum() < FEWEST:
        return float("nan")
    before, after = (_together(each, where) for each in (mixed, output))
    return after - before if before >= NOISIEST else float("nan")


def change(speech: Complexes, output: Complexes, where: Flags) -> float:
    """Return `Scores.sibilants` or `Scores.fricatives`, by the frames."""
    apart = np.clip(levels(output) - levels(speech), -MOST, MOST)
    return _mean(apart[where])


def change_together(speech: Complexes, output: Complexes, where: Flags) -> float:
    """Return `Scores.sibilants_together`, by the frames."""
    if where.sum() < FEWEST:
        return float("nan")
    return _together(output, where) - _together(speech, where)


def _together(spectra: Complexes, where: Flags) -> float:
    """Return the level from 8 to 20 kHz of some frames' mean energy, `QUIETEST` or more."""
    energy = max(_energy(spectra, LOW, HIGH)[where].mean(), 1e-20)
    return max(QUIETEST, float(10 * np.log10(energy)))


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) >= FEWEST else float("nan")
