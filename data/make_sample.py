"""Make data/sample-clean.wav and data/sample-noisy.wav from a voice and a noise of the corpora.

Run from the repository root, with the corpora below ``$ALPHAMF_DATA/corpora``::

    python data/make_sample.py
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

RATE = 16000
SNR_DB = 5.0
HERE = Path(__file__).parent
VOICE = "speech-16k/audio/en_libri-1284_f37ad6.opus"
NOISE = "noise-48k/audio/nons_water_tap_long_a672e.opus"


def corpora() -> Path:
    """Return the folder of the corpora."""
    return Path(os.environ["ALPHAMF_DATA"]) / "corpora"


def sound(path: Path) -> NDArray[np.float64]:
    """Return the samples of a mono file at 16 kHz."""
    audio, rate = soundfile.read(path)
    return audio if rate == RATE else soxr.resample(audio, rate, RATE)


def add_noise(clean: NDArray[np.float64], noise: NDArray[np.float64]) -> NDArray[np.float64]:
    """Add the beginning of a noise at SNR_DB over the whole clip."""
    noise = noise[: len(clean)]
    return clean + noise * np.sqrt(clean @ clean / (noise @ noise)) * 10 ** (-SNR_DB / 20)


def quantise(audio: NDArray[np.float64]) -> NDArray[np.int16]:
    """Round to 16 bit."""
    if np.abs(audio).max() >= 1:
        raise SystemExit("the sample clips")
    return np.round(audio * 32768).astype(np.int16)


def main() -> None:
    """Write both files; the noise is added to the clean file as it was rounded."""
    clean = quantise(sound(corpora() / VOICE))
    noisy = quantise(add_noise(clean / 32768, sound(corpora() / NOISE)))
    soundfile.write(HERE / "sample-clean.wav", clean, RATE, "PCM_16")
    soundfile.write(HERE / "sample-noisy.wav", noisy, RATE, "PCM_16")


if __name__ == "__main__":
    main()
