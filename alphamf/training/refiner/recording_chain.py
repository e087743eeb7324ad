"""Simulate the recording chain: rooms, microphones, clipping, codecs, level, and 16 bits.

Functions that take a pair process the speech and the mixture in the same way, so that the speech is
the ideal output of a denoiser, which should not remove rooms or telephones.
"""

from __future__ import annotations

import io
from typing import NamedTuple

import numpy as np

from alphamf.audio.resample import resample
from alphamf.tools.arrays import Floats, Reals
from alphamf.training.refiner.shaping import (
    TELEPHONE_RATE,
    Rng,
    convolved,
    decibels_to_amplitude,
    log_uniform,
    rms,
    spoken,
)

MOST_CLIPPED = 9.0
"""Largest overshoot of a clipped mixture's peak over full scale, in dB."""

CODED_PEAK = 0.5
"""Peak level before encoding, because codecs are made for usual levels."""

LONGEST_TAIL = 1.5
"""Maximum length of a room's response, in seconds; the rest is cut off."""


class LossyCodec(NamedTuple):
    """An audio codec of libsndfile."""

    # container, subtype: its names of both.
    container: str
    subtype: str
    # Range of its compression, from 0 to 1; None if it has none.
    compression: tuple[float, float] | None = None
    narrow: bool = False  # Whether it is for telephones alone, so that wider sound is resampled


CODECS = (
    (0.25, LossyCodec("MP3", "MPEG_LAYER_III", (0.0, 0.9))),
    (0.35, LossyCodec("OGG", "OPUS", (0.75, 0.98))),
    (0.15, LossyCodec("OGG", "VORBIS", (0.2, 1.0))),
    (0.10, LossyCodec("WAV", "GSM610", narrow=True)),
    (0.10, LossyCodec("WAV", "ULAW", narrow=True)),
    (0.05, LossyCodec("WAV", "IMA_ADPCM")),
)
"""Codecs, and how often each is drawn."""


def recorded_room(rng: Rng, sound: Reals, rate: int, response: Reals) -> Reals:
    """Convolve a sound with a recorded room response, keeping its level.

    `sound`, `rate`: shape (..., samples), and its sampling rate in Hz. `response`: response of the
    room, shape (n,), at that rate; it begins with the direct sound.
    """
    response = np.array(response[: int(LONGEST_TAIL * rate)], float)
    direct = int(np.abs(response).argmax())
    near = direct + rate // 400  # 2.5 ms
    response[near:] *= decibels_to_amplitude(-rng.uniform(0, 12))
    made = convolved(sound, response)[..., direct : direct + sound.shape[-1]]
    result: Reals = made * (rms(spoken(sound)) / rms(spoken(made)))
    return result


def band(rng: Rng, pair: tuple[Reals, Reals], rate: int) -> tuple[Reals, Reals]:
    """Limit the band of both sounds as a microphone does, at its low or high end."""
    samples = len(pair[0])
    frequencies = np.fft.rfftfreq(samples, 1 / rate)
    low, high = log_uniform(rng, 20, 250), log_uniform(rng, 0.2 * rate, 0.6 * rate)
    below = 1 + (low / np.maximum(frequencies, 1)) ** rng.uniform(2, 8)
    above = 1 + (frequencies / high) ** rng.uniform(4, 30)
    gain = np.sqrt(1 / below / above)
    clean, noisy = (np.fft.irfft(np.fft.rfft(each) * gain, samples) for each in pair)
    return clean, noisy


def apply_codec(rng: Rng, pair: tuple[Reals, Reals], rate: int) -> tuple[Reals, Reals]:
    """Apply a random codec to both sounds, at the same level and bit rate."""
    chances = np.array([chance for chance, _ in CODECS])
    codec = CODECS[rng.choice(len(CODECS), p=chances / chances.sum())][1]
    compression = None if codec.compression is None else rng.uniform(*codec.compression)
    scale = CODED_PEAK / max(np.abs(pair[1]).max(), 1e-9)
    clean, noisy = (
        encode_and_decode(each * scale, rate, codec, compression).astype(float) / scale
        for each in pair
    )
    return clean, noisy


def encode_and_decode(
    sound: Reals, rate: int, codec: LossyCodec, compression: float | None
) -> Floats:
    """Encode and decode a sound; rate and length are kept, and the delay is removed.

    `sound`, `rate`: shape (samples,), below full scale, and its sampling rate in Hz.
    """
    import soundfile

    used = TELEPHONE_RATE if codec.narrow else rate
    given = resample(sound.astype(np.float32), rate, used) if used != rate else sound
    file = io.BytesIO()
    with soundfile.SoundFile(
        file,
        "w",
        samplerate=used,
        channels=1,
        format=codec.container,
        subtype=codec.subtype,
        compression_level=compression,
    ) as writer:
        writer.write(given)
    file.seek(0)
    heard, _ = soundfile.read(file, dtype="float32")
    if used != rate:
        heard = resample(heard, used, rate)
    result: Floats = np.zeros(len(sound), np.float32)
    result[: len(heard)] = heard[: len(sound)]
    return result


def quantize_mixture(
    rng: Rng, pair: tuple[Reals, Reals], level: tuple[float, ...], clipped: bool
) -> tuple[Floats, Floats]:
    """Scale the mixture to a random peak, sometimes above full scale, and round to 16 bits.

    `pair`: speech and mixture, shape (samples,). `level`: range of the peak in dBFS. Returns
    `clean, noisy`: float32; the speech is not cut off and not rounded.
    """
    clean, noisy = (each / np.abs(pair[1]).max() for each in pair)
    if clipped:
        over = decibels_to_amplitude(rng.uniform(0, MOST_CLIPPED))
        clean, noisy = clean * over, np.clip(noisy * over, -1, 1)
    scale = decibels_to_amplitude(rng.uniform(level[0], level[1]))
    rounded = np.round(noisy * scale * 32767) / 32767
    return (clean * scale).astype(np.float32), rounded.astype(np.float32)
