"""Make data/sample-clean.wav and data/sample-noisy.wav; needs espeak-ng for the voice.

Run from the repository root: ``python data/make_sample.py``.
"""

from __future__ import annotations

import io
import subprocess
from pathlib import Path

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from alphamf.factorization.stable import symmetric_stable
from alphamf.inference.random import generator

RATE = 16000
SNR_DB = 5.0
TYPING = 0.1  # share of the typing in the energy of the noise
SEED = 2016
HERE = Path(__file__).parent
SENTENCE = (
    "Yesterday the wind was so loud that we moved the meeting indoors. "
    "Please send me the notes before Friday."
)


def voice() -> NDArray[np.float64]:
    """Return the sentence spoken by espeak-ng, at 16 kHz, with a peak of a third."""
    command = ["espeak-ng", "-v", "en-gb", "-s", "150", "--stdout", SENTENCE]
    wav = subprocess.run(command, check=True, capture_output=True).stdout
    audio, rate = soundfile.read(io.BytesIO(wav))
    audio = soxr.resample(audio, rate, RATE)
    margin = np.zeros(RATE // 4)
    return np.concatenate([margin, audio / (3 * np.abs(audio).max()), margin])


def fan(samples: int) -> NDArray[np.float64]:
    """Return stationary noise that falls by 6 dB per octave above 400 Hz, with a hum at 120 Hz."""
    white = generator(SEED, 0).standard_normal(samples)
    frequency = np.fft.rfftfreq(samples, 1 / RATE)
    shape = 1 / np.hypot(1, frequency / 400) + 3 * np.exp(-(((frequency - 120) / 6) ** 2))
    shape *= frequency > 40
    return np.fft.irfft(np.fft.rfft(white) * shape, samples)


def typing(samples: int) -> NDArray[np.float64]:
    """Return keystrokes: short ringing clicks whose loudness has a heavy alpha-stable tail."""
    rng = generator(SEED, 1)
    audio = np.zeros(samples)
    ring = np.arange(int(0.03 * RATE)) / RATE
    onset = 0.3
    while onset < samples / RATE - 0.05:
        click = rng.standard_normal(len(ring)) * np.exp(-ring / 0.002)
        click += np.sin(2 * np.pi * (1500 + 2500 * rng.random()) * ring) * np.exp(-ring / 0.006)
        # The cap keeps one keystroke from being all of the noise.
        loudness = np.minimum(np.abs(symmetric_stable(rng, 1.2, (1,), np.float64)), 8.0)
        start = int(onset * RATE)
        audio[start : start + len(ring)] += loudness * click
        onset += 0.05 + 0.15 * rng.standard_exponential()
    return audio


def add_noise(clean: NDArray[np.float64]) -> NDArray[np.float64]:
    """Add fan and typing at SNR_DB over the whole clip."""
    room, keys = (part / np.sqrt(part @ part) for part in (fan(len(clean)), typing(len(clean))))
    noise = np.sqrt(1 - TYPING) * room + np.sqrt(TYPING) * keys
    noise *= np.sqrt(clean @ clean / (noise @ noise)) * 10 ** (-SNR_DB / 20)
    return clean + noise


def quantise(audio: NDArray[np.float64]) -> NDArray[np.int16]:
    """Round to 16 bit."""
    if np.abs(audio).max() >= 1:
        raise SystemExit("the sample clips")
    return np.round(audio * 32768).astype(np.int16)


def main() -> None:
    """Write both files; the noise is added to the clean file as it was rounded."""
    clean = quantise(voice())
    noisy = quantise(add_noise(clean / 32768))
    soundfile.write(HERE / "sample-clean.wav", clean, RATE, "PCM_16")
    soundfile.write(HERE / "sample-noisy.wav", noisy, RATE, "PCM_16")


if __name__ == "__main__":
    main()
