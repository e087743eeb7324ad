"""Mixtures of speech and noise for training networks, made from the recipe of a configuration."""

from __future__ import annotations

import numpy as np

from alphamf.tools.arrays import Floats, Reals
from alphamf.training.refiner import recording_chain
from alphamf.training.refiner.config import Mixtures
from alphamf.training.refiner.noises import noise
from alphamf.training.refiner.recordings import SplitRecordings
from alphamf.training.refiner.rooms import NOISE_OUTSIDE, draw_room
from alphamf.training.refiner.shaping import (
    Rng,
    add_pauses,
    begin_late,
    change_speed,
    cut_loud_piece,
    decibels_to_amplitude,
    filter_telephone,
    pick,
    rms,
    room,
    shape_spectrum,
    spoken,
)

SPEEDS = tuple(range(80, 125, 2))
"""Playing speeds of a voice in per cent, which scale its pitch as well."""

NEARLY_CLEAN = (20.0, 50.0)
"""Range of the signal-to-noise ratio of speech that is nearly clean, in dB."""

SIBILANT, PIECES = 4000.0, 4
"""Frequency in Hz above which sibilants have most of their energy, and the number of pieces of a
voice from which the one with most sibilants is chosen, if sibilants are requested."""

FILTERED, FLOOR, FAR_END = 0.5, 0.3, 0.85
"""Fractions of voices that are filtered, of mixtures with a faint noise floor, and of telephones
that are in the noise."""


def mixture(
    rng: Rng, samples: int, rate: int, recordings: SplitRecordings, recipe: Mixtures
) -> tuple[Floats, Floats]:
    """Draw a mixture: speech in a room plus noise, after a simulated microphone and file format.

    `samples`, `rate`: length of the mixture, and sampling rate in Hz. Returns `clean, noisy`: shape
    (samples,), float32; the clean speech includes the room's, the telephone's and the codec's
    response, and is not clipped.
    """
    voice = _voice(rng, samples, rate, recordings, recipe)
    rest = noise(rng, samples, rate, recordings.voices, recordings.sounds, recipe)
    if rng.random() < recipe.pauses:
        rest = add_pauses(rng, rest, rate)
    if recipe.echo and rng.random() < recipe.echo:
        heard = draw_room(rng, rate, recordings.rooms)
        voice = heard.heard(voice)
        if rng.random() > NOISE_OUTSIDE:
            rest = heard.heard_noise(rest)
    if rng.random() < recipe.telephone:
        line = rng.integers(1 << 30)
        voice = filter_telephone(np.random.default_rng(line), voice, rate)
        if rng.random() < FAR_END:
            rest = filter_telephone(np.random.default_rng(line), rest, rate)
    target, speech = voice if voice.ndim == 2 else (voice, voice)
    snr = NEARLY_CLEAN if rng.random() < recipe.nearly_clean else recipe.snr
    rest = rest * (rms(speech) / rms(rest) * decibels_to_amplitude(-rng.uniform(snr[0], snr[1])))
    if rng.random() < FLOOR:
        rest = rest + rng.standard_normal(samples) * rms(speech) * decibels_to_amplitude(
            -rng.uniform(25, 50)
        )
    pair: tuple[Reals, Reals] = target, speech + rest
    if rng.random() < recipe.band:
        pair = recording_chain.band(rng, pair, rate)
    if rng.random() < recipe.codec:
        pair = recording_chain.apply_codec(rng, pair, rate)
    return recording_chain.quantize_mixture(
        rng, pair, recipe.level, bool(rng.random() < recipe.clipped)
    )


def _voice(
    rng: Rng, samples: int, rate: int, recordings: SplitRecordings, recipe: Mixtures
) -> Reals:
    """Draw a voice at a random speed, sometimes filtered or with reverberation.

    Where the recordings have targets, the result has two rows: the target and the voice.
    """
    which = int(rng.integers(len(recordings.voices)))
    voice = recordings.voices[which]
    if recordings.targets:
        voice = np.stack([recordings.targets[which], voice])
    voice = change_speed(rng, voice, SPEEDS)
    speech = cut_loud_piece(rng, voice, samples, 0.4).astype(float)
    # No number is drawn where none are asked for: recipes of before give the same mixtures.
    if recipe.sibilant and rng.random() < recipe.sibilant:
        others = [cut_loud_piece(rng, voice, samples, 0.4).astype(float) for _ in range(PIECES - 1)]
        speech = max([speech, *others], key=lambda piece: _sibilance(piece, rate))
    if recipe.late and rng.random() < recipe.late:
        speech = begin_late(rng, speech, rate)
    if rng.random() < FILTERED:
        speech = shape_spectrum(rng, speech, rate, 3.0, (-0.6, 0.6))
    where = rng.random()
    if where < recipe.rooms:
        return recording_chain.recorded_room(rng, speech, rate, pick(rng, recordings.rooms))
    if where < recipe.rooms + recipe.made_up_rooms:
        return room(rng, speech, rate)
    return speech


def _sibilance(speech: Reals, rate: int) -> float:
    """Return the fraction of a piece's energy in sibilants; at 8 kHz, above 2 kHz."""
    speech = spoken(speech)
    energy = np.abs(np.fft.rfft(speech)) ** 2
    above = np.fft.rfftfreq(len(speech), 1 / rate) > min(SIBILANT, rate / 4)
    return float(energy[above].sum() / energy.sum())
