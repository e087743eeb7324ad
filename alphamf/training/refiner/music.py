"""Synthetic music as noise: one to four instruments that play a scale or chords, drums, or both.

An instrument plays wavetables of one period. Struck strings and keys fade from a bright table to a
dark one; bowed and blown instruments sustain, with vibrato and breath noise.
"""

from typing import NamedTuple

import numpy as np

from alphamf.tools.arrays import Reals
from alphamf.training.refiner.shaping import (
    Rng,
    decibels_to_amplitude,
    log_uniform,
    put,
    rms,
    shape_spectrum,
)

TABLE = 2048
"""Number of samples in a wavetable."""

SCALES = (
    (0, 2, 4, 5, 7, 9, 11),
    (0, 2, 3, 5, 7, 8, 10),
    (0, 2, 4, 7, 9),
    (0, 3, 5, 7, 10),
    tuple(range(12)),
)
"""Semitones of the scales: major, minor, major pentatonic, minor pentatonic, and chromatic."""

BEATS = (0.25, 0.5, 0.5, 1.0, 1.0, 2.0, 4.0)
"""Lengths of a rhythm's notes in beats; those that are listed twice are twice as frequent."""

DRUMS = 0.5
"""Fraction of the music with instruments that also has drums."""

STRUCK = 0.6
"""Fraction of the instruments whose tones start to fade immediately."""


class Instrument(NamedTuple):
    """The timbre of an instrument."""

    # bright, dark: wavetables of one period, one per octave of pitch, without harmonics that would
    # alias; the first sample is repeated at the end. Shape (octaves, `TABLE` + 1).
    bright: Reals
    dark: Reals
    seconds: float  # Time in which a struck tone fades by a factor of e
    darkening: float  # Ratio of the rates at which a struck tone's bright part and the tone fade
    attack: float  # Rise time of a tone in s
    vibrato: tuple[float, float]  # Depth, as a fraction of the pitch, and rate in Hz
    breath: float  # Level of the breath noise relative to the tone's
    struck: bool  # Whether tones fade from their beginning on


def music(rng: Rng, samples: int, rate: int) -> Reals:
    """Make music with one to four instruments, half of the time with drums, or drums alone.

    Each instrument has its own tuning.

    `samples`, `rate`: length, and sampling rate in Hz. Returns: shape (samples,), float64.
    """
    beat = 60 / rng.uniform(60, 180)  # seconds
    parts = int(rng.integers(0, 5))
    scale = np.array(SCALES[rng.integers(len(SCALES))]) + rng.uniform(0, 12)
    layers = [_part(rng, samples, rate, beat, scale) for _ in range(parts)]
    if not parts or rng.random() < DRUMS:
        layers.append(_drums(rng, samples, rate, beat))
    result = np.zeros(samples)
    for layer in layers:
        result += layer / rms(layer) * decibels_to_amplitude(rng.normal(0, 5))
    return shape_spectrum(rng, result, rate, 3.0, (-0.4, 0.3))


def _part(rng: Rng, samples: int, rate: int, beat: float, scale: Reals) -> Reals:
    """Return the sound of one instrument: a repeated rhythm, on a random walk through the scale."""
    instrument = _instrument(rng, rate)
    rhythm = rng.choice(BEATS, int(rng.integers(1, 7))) * beat
    octave, voices = rng.uniform(1, 4), int(rng.integers(1, 5))
    place, time = int(rng.integers(len(scale))), -rng.uniform(0, float(rhythm.sum()))
    long, rests = rng.uniform(0.3, 2.5), rng.uniform(0, 0.3)
    result = np.zeros(samples)
    turn = 0
    while time < samples / rate:
        length = float(rhythm[turn % len(rhythm)])
        turn += 1
        place += int(rng.integers(-2, 3))
        if rng.random() > rests:
            chord = place + 2 * np.arange(1 + int(rng.integers(voices)))
            for each in chord:
                semitones = scale[each % len(scale)] + 12 * (each // len(scale) + octave)
                pitch = 27.5 * 2 ** (semitones / 12)
                tone = _tone(rng, instrument, pitch, int(length * long * rate) + 64, rate)
                put(result, tone * decibels_to_amplitude(rng.normal(0, 3)), int(time * rate))
        time += length
    return _heard(rng, result)


def _heard(rng: Rng, sound: Reals) -> Reals:
    """Return a sound, or very low noise if it is silent, because silence has no level to scale."""
    return sound if sound.any() else 1e-9 * rng.standard_normal(len(sound))


def _instrument(rng: Rng, rate: int) -> Instrument:
    """Draw an instrument at random; `rate` limits the harmonics in its wavetables."""
    struck = bool(rng.random() < STRUCK)
    slope = rng.uniform(0.3, 1.8)
    colour = rng.normal(0, rng.uniform(0, 8), TABLE // 2)
    if rng.random() < 0.15:
        colour[1::2] -= 30  # even harmonics, as a clarinet has next to none
    phases = rng.uniform(0, 2 * np.pi, TABLE // 2)
    bright, dark = (
        _tables(slope + more, colour, phases, rate) for more in (0.0, rng.uniform(0.3, 1.5))
    )
    return Instrument(
        bright,
        dark,
        seconds=log_uniform(rng, 0.08, 2.0),
        darkening=log_uniform(rng, 1.5, 10),
        attack=log_uniform(rng, 0.001, 0.01) if struck else log_uniform(rng, 0.01, 0.15),
        vibrato=(0.0 if struck else rng.uniform(0, 0.01), rng.uniform(4, 7)),
        breath=0.0 if struck else rng.uniform(0, 0.1),
        struck=struck,
    )


def _tables(slope: float, colour: Reals, phases: Reals, rate: int) -> Reals:
    """Return wavetables for nine octaves from 27.5 Hz up, without aliasing, as in `Instrument`."""
    harmonic = np.arange(1, TABLE // 2 + 1)
    spectrum = harmonic**-slope * 10 ** (colour / 20) * np.exp(1j * phases)
    found = []
    for octave in range(1, 10):
        kept = np.concatenate([[0], spectrum * (harmonic * 27.5 * 2**octave < 0.48 * rate)])
        table = np.fft.irfft(kept, TABLE) * TABLE
        found.append(np.append(table, table[0]))
    return np.array(found)


def _tone(rng: Rng, instrument: Instrument, pitch: float, samples: int, rate: int) -> Reals:
    """Return a tone of `samples` samples; a struck tone is longer, by its time of decay."""
    if instrument.struck:
        samples += int(instrument.seconds * rate)
    clock = np.arange(samples) / rate
    depth, vibrato = instrument.vibrato
    cycles = pitch * (clock - depth / (2 * np.pi * vibrato) * np.cos(2 * np.pi * vibrato * clock))
    place = ((cycles + rng.random()) % 1) * TABLE
    octave = int(np.clip(np.ceil(np.log2(pitch / 27.5)), 1, len(instrument.bright))) - 1
    bright, dark = (
        np.interp(place, np.arange(TABLE + 1), each[octave])
        for each in (instrument.bright, instrument.dark)
    )
    end = np.minimum(1, (clock[-1] - clock) / 0.03)
    begin = np.minimum(1, clock / instrument.attack) * end
    if instrument.struck:
        slow = np.exp(-clock / instrument.seconds)
        fast = slow**instrument.darkening
    else:
        slow, fast = np.ones(samples), np.full(samples, rng.uniform(0, 1))
    tone = (slow - fast) * dark + fast * bright
    tone += instrument.breath * rms(tone) * rng.standard_normal(samples)
    return begin * tone


def _drums(rng: Rng, samples: int, rate: int, beat: float) -> Reals:
    """Return the sound of two to five drums, each with a repeated rhythm of sixteen steps."""
    step = beat / float(rng.choice([2, 3, 4]))
    first = -rng.uniform(0, 16 * step)
    result = np.zeros(samples)
    for _ in range(int(rng.integers(2, 6))):
        drum = _drum(rng, rate)
        every = int(rng.choice([1, 2, 4, 8]))
        struck = (np.arange(16) % every == rng.integers(every)) | (rng.random(16) < 0.1)
        level = decibels_to_amplitude(rng.normal(0, 6))
        for k in range(int((samples / rate - first) / step) + 1):
            if struck[k % 16]:
                stroke = drum * level * decibels_to_amplitude(rng.normal(0, 2))
                put(result, stroke, int((first + k * step) * rate))
    return _heard(rng, result)


def _drum(rng: Rng, rate: int) -> Reals:
    """Draw a drum's stroke: a membrane of falling pitch with a snare, or a cymbal or shaker."""
    samples = int(rate * log_uniform(rng, 0.05, 0.8))
    clock = np.arange(samples) / rate
    fade = np.exp(-clock / (samples / rate) * rng.uniform(4, 8))
    noise = rng.standard_normal(samples)
    if rng.random() < 0.5:
        hiss = np.fft.rfft(noise)
        frequencies = np.fft.rfftfreq(samples, 1 / rate)
        low = log_uniform(rng, 800, min(9000, 0.4 * rate))
        hiss *= 1 / (1 + (low / np.maximum(frequencies, 1)) ** rng.uniform(2, 8))
        sound = np.fft.irfft(hiss, samples)
        swing = np.minimum(1, clock / log_uniform(rng, 0.0005, 0.05))  # a shaker begins slowly
        return sound / rms(sound) * fade * swing
    pitch = log_uniform(rng, 45, 400)
    fall = 1 + rng.uniform(0, 3) * np.exp(-clock / log_uniform(rng, 0.005, 0.05))
    skin = np.sin(2 * np.pi * np.cumsum(pitch * fall) / rate) * fade
    wires = shape_spectrum(rng, noise, rate, 5.0, (-0.6, 0.3)) * fade ** rng.uniform(0.5, 3)
    return skin / rms(skin) + wires / rms(wires) * decibels_to_amplitude(rng.uniform(-30, 5))
