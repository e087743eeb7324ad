"""SHA-256 of the presets' output for the sample: ``python -m benchmarks.digests [PRESET ...]``.

To verify that a change keeps every bit, compare its output before and after. The rows are presets
x {8, 16, 48 kHz} x {mono, stereo}; digests depend on the processor, NumPy and BLAS.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Annotated

import numpy as np
import soundfile
import soxr

from alphamf import PRESETS, denoise
from benchmarks.report import SAMPLE, run_main

SECONDS = 2.5
PAPER_STEPS = 100  # Number of steps of the preset ``paper`` here, instead of its 2500


def digest(preset: str, rate: int, channels: int) -> str:
    """Return the SHA-256 of the denoised sample's audio, gain and standard deviation."""
    audio, native = soundfile.read(SAMPLE, dtype="float32")
    audio = soxr.resample(audio, native, rate)[: round(SECONDS * rate)]
    if channels == 2:
        audio = np.stack([audio, 0.5 * np.roll(audio, rate // 7)], axis=1)
    settings = PRESETS[preset]
    if preset == "paper":
        settings = replace(settings, steps=PAPER_STEPS, keep=PAPER_STEPS // 2)
    result = denoise(audio, rate, settings, seed=1)
    arrays = (result.audio, result.gain, result.gain_std)
    return hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()


def main(presets: Annotated[Sequence[str], PRESETS] = ()) -> None:
    """Print a row of a Markdown table for each preset, rate and number of channels."""
    print("| preset | kHz | channels | SHA-256 |\n|---|---|---|---|")
    for preset, rate, channels in product(presets or PRESETS, (8000, 16000, 48000), (1, 2)):
        found = digest(preset, rate, channels)
        print(f"| {preset} | {rate // 1000} | {channels} | {found[:16]} |", flush=True)


if __name__ == "__main__":
    run_main(main)
