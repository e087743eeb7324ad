"""Stereo mixtures of known images: one voice in both channels in several noises, or two voices.

Voices are those of a split of ``$ALPHAMF_DATA/corpora/speech-16k``, noises the steady and the
unsteady ones of the same split of ``noise-48k``. On ``dev`` settings may be chosen; of neither
``dev`` nor ``test`` was anything trained on.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np

from alphamf.tools.arrays import Floats
from benchmarks.front_clips import manifest, mono

RATE = 16000
SAMPLES = 8 * RATE
SOUND = 343.0
"""Speed of sound in m/s."""

MICROPHONES = np.array([[2.4, 1.5, 1.2], [2.6, 1.5, 1.2]])
"""Where the diffuse noise and the room's voice are recorded, in m: 20 cm apart."""

ROOM, WALLS = np.array([5.0, 4.0, 2.6]), 0.6
"""Size of the room in m, and what a wall reflects of a sound's amplitude."""

KINDS = (
    "different noises",
    "one noise",
    "diffuse",
    "panned",
    "room",
    "taking turns",
    "crosstalk",
    "two voices",
)
"""One voice in the middle in a noise of each channel of its own, in two stretches of one noise, in
a diffuse one; in a diffuse one, a voice 6 dB and .5 ms to the left, and one in a room; two voices
that take turns left and right of the middle; two that speak at once into a microphone each, which
has the other one 15 dB softer, or not at all."""

STEADINESS = ("stationary", "nonstationary")
"""Kinds of noises in the manifest."""

VOICES = 10


class Mixture(NamedTuple):
    """A stereo mixture; `clean` and `noisy` have the shape (samples, 2)."""

    kind: str
    name: str
    clean: Floats
    noisy: Floats


def mixtures(
    count: int, snr: float, kinds: tuple[str, ...] = KINDS, split: str = "dev"
) -> Iterator[Mixture]:
    """Yield `count` mixtures of each kind.

    Parameters
    ----------
    count
        Voices, at most `VOICES`.
    snr
        Power of the speech over that of the noise in a channel, in dB; of the louder channel where
        the voice is nearer to one.
    kinds
        Of `KINDS`.
    split
        Of the corpora: ``"dev"`` or ``"test"``.
    """
    speech, sounds = voices(split=split), noises(split)
    for k, kind in product(range(count), kinds):
        voice, other = speech[k], speech[(k + 5) % len(speech)]
        first, second = sounds[(3 * k) % len(sounds)], sounds[(3 * k + 10) % len(sounds)]
        clean = _images(kind, voice, other)
        noise = _noise(kind, first, second)
        loudest = (clean**2).mean(axis=0).max()
        scale = np.sqrt(loudest / (noise**2).mean(axis=0) / 10 ** (snr / 10))
        yield Mixture(
            kind,
            f"{kind}-{k}",
            clean.astype(np.float32),
            (clean + scale * noise).astype(np.float32),
        )


def voices(*, last: bool = False, split: str = "dev") -> list[Floats]:
    """Return a clip of eight seconds of each voice, its first or its last, of languages in turn."""
    found: dict[str, Floats] = {}
    for path, _, speaker in manifest("speech-16k", split):
        if speaker not in found or last:
            sound = mono(path, RATE)
            if len(sound) >= SAMPLES:
                found[speaker] = np.asarray(sound[:SAMPLES], float)
    every = list(found.values())
    return [every[k] for first in range(3) for k in range(first, len(every), 3)][:VOICES]


@cache
def noises(split: str = "dev") -> list[Floats]:
    """Return the noises that last twelve seconds, by name."""
    files = (path for path, kind, _ in manifest("noise-48k", split) if kind in STEADINESS)
    found = (np.asarray(mono(path, RATE), float) for path in files)
    return [noise for noise in found if len(noise) >= 1.5 * SAMPLES]


def _images(kind: str, voice: Floats, other: Floats) -> Floats:
    """Return the voices in both channels."""
    other = other * np.sqrt((voice**2).mean() / (other**2).mean())
    softer = 10 ** (-15 / 20) if kind == "crosstalk" else 0
    if kind in ("two voices", "crosstalk"):
        return np.stack([voice + softer * _delayed(other, 3e-3), other + softer * voice], 1)
    panned = np.stack([voice, 10 ** (-6 / 20) * _delayed(voice, 5e-4)], 1)
    if kind == "panned":
        return panned
    if kind == "taking turns":
        panned[SAMPLES // 2 :] = np.stack([_delayed(other, 5e-4) / 2, other], 1)[: SAMPLES // 2]
        return panned
    if kind == "room":
        return np.stack([_at(voice, np.array([1.6, 2.4, 1.5]), place) for place in MICROPHONES], 1)
    return np.stack([voice, voice], 1)


def _delayed(sound: Floats, seconds: float) -> Floats:
    size = 2 * len(sound)
    spectrum = np.fft.rfft(sound, size)
    spectrum *= np.exp(-2j * np.pi * np.fft.rfftfreq(size, 1 / RATE) * seconds)
    delayed: Floats = np.fft.irfft(spectrum, size)[: len(sound)]
    return delayed


def _at(voice: Floats, source: Floats, microphone: Floats) -> Floats:
    """Return the voice at a microphone of the room, by the images of its source."""
    total = np.zeros(len(voice))
    for cells in product(range(-2, 3), repeat=3):
        image = np.array(
            [
                size * cell + (x if cell % 2 == 0 else size - x)
                for cell, size, x in zip(cells, ROOM, source, strict=True)
            ]
        )
        distance = np.linalg.norm(image - microphone)
        total += WALLS ** np.abs(cells).sum() / distance * _delayed(voice, distance / SOUND)
    return total


def _noise(kind: str, first: Floats, second: Floats) -> Floats:
    """Return the noise of both channels, before it is scaled."""
    parts = np.stack([first[:SAMPLES], first[-SAMPLES:]], 1)
    if kind in ("different noises", "two voices", "crosstalk"):
        return np.stack([first[:SAMPLES], second[:SAMPLES]], 1)
    if kind == "one noise":
        return parts
    # Diffuse: the coherence of the two channels is sin(x) / x.
    apart = np.linalg.norm(MICROPHONES[0] - MICROPHONES[1])
    spectra = np.fft.rfft(parts / parts.std(axis=0), axis=0)
    coherence = np.sinc(2 * np.fft.rfftfreq(SAMPLES, 1 / RATE) * apart / SOUND)
    spectra[:, 1] = coherence * spectra[:, 0] + np.sqrt(1 - coherence**2) * spectra[:, 1]
    noise: Floats = np.fft.irfft(spectra, SAMPLES, axis=0)
    return noise
