r"""A voice in two channels: how it is denoised, and whether it keeps its place between them.

For example, to choose, and once to test::

    python -m benchmarks.stereo --preset plain
    python -m benchmarks.stereo --preset plain --split test

Mixtures at 16 kHz of known images: voices of ``$ALPHAMF_DATA/corpora/speech-16k``, noises of
``noise-48k``, both of one split. The kinds, for each voice:

different noises, one noise, diffuse
    The same voice in both channels: in a noise of each channel's own, in two stretches of one
    noise, in noise with the coherence of a diffuse one.
panned, room
    In diffuse noise, a voice 6 dB and .5 ms to the left, and one in a room by the image method.
taking turns
    In diffuse noise, two voices after each other, left and right of the middle.
crosstalk, two voices
    Two at once with a microphone each, in a noise each: the other one is 15 dB softer, or absent.

Compared with the clean images: the means over channels of SI-SDR, PESQ and ESTOI; the error of the
level between the channels, in frames 10 to 30 dB below the loud ones of the voice, and of their
phase there, weighted with the magnitude of the clean cells. "linked less separate" are differences.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile

from alphamf import PRESETS, denoise
from alphamf.audio.stft import Frame, forward
from alphamf.denoising.settings import ChannelsName
from alphamf.scores.score import pesq, si_sdr, stoi
from alphamf.tools.arrays import Floats, Reals
from alphamf.tools.blas import one_thread
from benchmarks import scored
from benchmarks.clips import manifest, mono
from benchmarks.report import options_of, run_main

RATE, SAMPLES = 16000, 8 * 16000
SOUND = 343.0
"""Speed of sound in m/s."""

MICROPHONES = np.array([[2.4, 1.5, 1.2], [2.6, 1.5, 1.2]])
"""Where the diffuse noise and the room's voice are recorded, in m: 20 cm apart."""

VOICE, ROOM, WALLS = np.array([1.6, 2.4, 1.5]), np.array([5.0, 4.0, 2.6]), 0.6
"""Place of the voice and size of the room in m, and what a wall reflects of an amplitude."""

OWN = ("different noises", "crosstalk", "two voices")
KINDS = ("different noises", "one noise", "diffuse", "panned", "room", "taking turns", *OWN[1:])
VOICES = 10
WAYS: tuple[ChannelsName, ...] = ("separate", "linked")

FRAME = Frame(1024, 512)
WEAK = (-30.0, -10.0)
"""Levels of weak speech below the mean of loud speech, in dB."""

SCORES = {"SI-SDR dB": 2, "PESQ": 2, "ESTOI": 3, "level error dB": 2, "phase error °": 1}
"""Headings, and decimals."""


class Mixture(NamedTuple):
    """A stereo mixture; `clean` and `noisy` have the shape (samples, 2)."""

    kind: str
    clean: Floats
    noisy: Floats


def mixtures(count: int, snr: float, kinds: list[str], split: str) -> Iterator[Mixture]:
    """Yield the kinds of mixtures of `count` voices; the louder channel has `snr` dB."""
    speech, noises = voices(split), noise_files(split)
    for k, kind in product(range(count), kinds):
        clean = images(kind, speech[k], speech[(k + 5) % len(speech)])
        noise = noise_of(kind, *(loaded(noises[(3 * k + far) % len(noises)]) for far in (0, 10)))
        scale = np.sqrt((clean**2).mean(axis=0).max() / (noise**2).mean(axis=0))
        noisy = clean + 10 ** (-snr / 20) * scale * noise
        yield Mixture(kind, clean.astype(np.float32), noisy.astype(np.float32))


def voices(split: str) -> list[Reals]:
    """Return a clip of eight seconds of each voice, of languages in turn."""
    found: dict[str, Reals] = {}
    for path, _, speaker in manifest("speech-16k", split):
        if speaker not in found and soundfile.info(path).duration * RATE >= SAMPLES:
            found[speaker] = np.asarray(mono(path, RATE)[:SAMPLES], float)
    every = list(found.values())
    return [every[k] for first in range(3) for k in range(first, len(every), 3)][:VOICES]


def noise_files(split: str) -> list[Path]:
    """Return the steady and the unsteady noises that last twelve seconds."""
    files = [path for path, kind, _ in manifest("noise-48k", split) if kind.endswith("stationary")]
    return [path for path in files if soundfile.info(path).duration * RATE >= 1.5 * SAMPLES]


@lru_cache(4)
def loaded(path: Path) -> Reals:
    """Return a noise, shape (samples,)."""
    return np.asarray(mono(path, RATE), float)


def images(kind: str, voice: Reals, other: Reals) -> Reals:
    """Return the voices in both channels, shape (samples, 2)."""
    other = other * np.sqrt((voice**2).mean() / (other**2).mean())
    if kind in OWN[1:]:
        softer = 10 ** (-15 / 20) if kind == "crosstalk" else 0
        return np.stack([voice + softer * delayed(other, 3e-3), other + softer * voice], 1)
    if kind == "room":
        return np.stack([in_room(voice, place) for place in MICROPHONES], 1)
    if kind not in ("panned", "taking turns"):
        return np.stack([voice, voice], 1)
    panned = np.stack([voice, delayed(voice, 5e-4) / 2], 1)
    if kind == "taking turns":
        panned[SAMPLES // 2 :] = np.stack([delayed(other, 5e-4) / 2, other], 1)[: SAMPLES // 2]
    return panned


def delayed(sound: Reals, seconds: float) -> Reals:
    """Delay a sound, also by parts of a sample."""
    size = 2 * len(sound)
    turn = np.exp(-2j * np.pi * np.fft.rfftfreq(size, 1 / RATE) * seconds)
    found: Reals = np.fft.irfft(np.fft.rfft(sound, size) * turn, size)[: len(sound)]
    return found


def in_room(voice: Reals, microphone: Reals) -> Reals:
    """Return the voice at a microphone of the room, by the images of its source."""
    total = np.zeros(len(voice))
    for cells in np.array(list(product(range(-2, 3), repeat=3))):
        image = ROOM * cells + np.where(cells % 2, ROOM - VOICE, VOICE)
        distance = float(np.linalg.norm(image - microphone))
        total += WALLS ** np.abs(cells).sum() / distance * delayed(voice, distance / SOUND)
    return total


def noise_of(kind: str, first: Reals, second: Reals) -> Reals:
    """Return the noise of both channels, before it is scaled, shape (samples, 2)."""
    if kind in OWN:
        return np.stack([first[:SAMPLES], second[:SAMPLES]], 1)
    stretches = np.stack([first[:SAMPLES], first[-SAMPLES:]], 1)
    if kind == "one noise":
        return stretches
    # Diffuse: the coherence of the two channels is sin(x) / x.
    apart = float(np.linalg.norm(MICROPHONES[0] - MICROPHONES[1]))
    spectra = np.fft.rfft(stretches / stretches.std(axis=0), axis=0)
    coherence = np.sinc(2 * np.fft.rfftfreq(SAMPLES, 1 / RATE) * apart / SOUND)
    spectra[:, 1] = coherence * spectra[:, 0] + np.sqrt(1 - coherence**2) * spectra[:, 1]
    noise: Reals = np.fft.irfft(spectra, SAMPLES, axis=0)
    return noise


def scores(clean: Floats, found: Floats) -> list[float]:
    """Return `SCORES` of an output of shape (samples, 2) against the clean images."""
    pairs = [tuple(map(np.ascontiguousarray, pair)) for pair in zip(clean.T, found.T, strict=True)]
    values = [(si_sdr(a, b), pesq(a, b, RATE), stoi(a, b, RATE, extended=True)) for a, b in pairs]
    spectra, others = (
        np.stack([forward(each, FRAME) for each in x]) for x in zip(*pairs, strict=True)
    )
    power, other = ((np.abs(each) ** 2).sum(axis=1) for each in (spectra, others))
    level = 10 * np.log10(power.mean(axis=0) + 1e-20)
    level -= 10 * np.log10(power.mean(axis=0)[level > level.max() - 30].mean())
    weak = (WEAK[0] < level) & (level <= WEAK[1])
    apart = [np.diff(10 * np.log10(each + 1e-12), axis=0)[0] for each in (power, other)]
    cross, seen = spectra[0] * spectra[1].conj(), others[0] * others[1].conj()
    phase = np.abs(np.degrees(np.angle(seen * cross.conj())))
    error = float(np.abs(apart[0] - apart[1])[weak].mean())
    turned = float(np.average(phase[:, weak], weights=np.abs(cross)[:, weak]))
    return [*np.mean(values, axis=0).tolist(), error, turned]


def measured(mixture: Mixture, number: int, preset: str) -> scored.Row:
    """Return `SCORES` by how channels are taken."""
    found = {"noisy": scores(mixture.clean, mixture.noisy)}
    for name in WAYS:
        audio = denoise(mixture.noisy, RATE, replace(PRESETS[preset], channels=name)).audio
        found[name] = scores(mixture.clean, audio)
    return scored.Row(f"{mixture.kind} {number}", (mixture.kind,), found)


@one_thread()
def main() -> None:
    """Write the table."""
    parser = options_of("benchmarks.stereo", __doc__)
    parser.add_argument("--count", type=int, default=8, help=f"voices, at most {VOICES}")
    parser.add_argument("--snr", type=float, default=5.0, help="in dB")
    parser.add_argument("--kinds", default=",".join(KINDS), help="with commas between")
    parser.add_argument("--preset", default="plain")
    parser.add_argument("--split", default="dev", choices=("dev", "test"), help="of the corpora")
    asked = parser.parse_args()
    every = mixtures(asked.count, asked.snr, asked.kinds.split(","), asked.split)
    rows = [measured(mixture, number, asked.preset) for number, mixture in enumerate(every)]
    rows = scored.with_differences(rows, [("linked", "separate")])
    scored.publish(f"stereo-{asked.preset}-{asked.split}.csv", scored.summary(rows, SCORES))


if __name__ == "__main__":
    run_main(main)
