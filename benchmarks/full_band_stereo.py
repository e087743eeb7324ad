r"""Does a voice keep its place above 8 kHz? A table of ``docs/full-band.md``.

Stereo mixtures of known images at 48 kHz: a voice of the split ``dev`` in the middle, or 6 dB and
.5 ms to the left, in noise of each channel's own or in one noise that is delayed between them. The
scores are those of `benchmarks.stereo`: level and phase from 8 to 20 kHz, in frames of weak speech
by its level there. For example::

    python -m benchmarks.full_band_stereo --count 8 --write
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from alphamf import PRESETS, denoise
from alphamf.tools import tables
from alphamf.tools.arrays import Floats
from alphamf.tools.blas import one_thread
from benchmarks.full_band_mixtures import RATE, Mixture, mixtures
from benchmarks.report import caption, options_of, publish
from benchmarks.stereo import FRAME, SCORES, scores

PAGE = Path(__file__).parents[1] / "docs" / "full-band.md"
BINS = slice(round(8000 / RATE * FRAME.n_fft), round(20000 / RATE * FRAME.n_fft))
PLACES = ("middle", "left")
NOISES = ("different", "from the right")
LABEL = "philippmatthes"
"""Of the voice, which has most above 8 kHz."""

SNR = 10.0
"""Of the louder channel, in dB."""

SHIFT = round(5e-4 * RATE)
"""Samples between the channels, of a voice on the left or a noise from the right."""


def images(count: int) -> Iterator[tuple[str, str, Floats, Floats]]:
    """Yield place of the voice, noise, and clean and noisy sound, shape (samples, 2)."""
    found = [each for each in mixtures("dev") if LABEL in each.name][:count]
    for k, place, kind in product(range(len(found)), PLACES, NOISES):
        clean = _placed(found[k].clean, place == "left")
        noise = _noise(found[k], found[k - 1], kind)
        loudest = (clean**2).mean(axis=0).max()
        noise *= np.sqrt(loudest / (noise**2).mean(axis=0) / 10 ** (SNR / 10))
        yield place, kind, clean, (clean + noise).astype(np.float32)


def _placed(voice: Floats, left: bool) -> Floats:
    other = np.roll(voice, SHIFT) / 2 if left else voice
    return np.stack([voice, other], 1).astype(np.float32)


def _noise(first: Mixture, second: Mixture, kind: str) -> Floats:
    noise, other = (each.noisy - each.clean for each in (first, second))
    if kind == "from the right":
        other = np.roll(noise, -SHIFT)
    return np.stack([noise, np.resize(other, len(noise))], 1)


@one_thread()
def main() -> None:
    """Print the table, or write it into the page."""
    parser = options_of("benchmarks.full_band_stereo", __doc__)
    parser.add_argument("--count", type=int, default=8, help="files of speech, at most 15")
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--write", action="store_true", help="into docs/full-band.md")
    asked = parser.parse_args()
    found: dict[tuple[str, str, str], list[list[float]]] = {}
    for place, kind, clean, noisy in images(asked.count):
        found.setdefault((place, kind, "noisy"), []).append(scores(clean, noisy, BINS))
        for channels in ("separate", "linked"):
            settings = replace(PRESETS[asked.preset], channels=channels)
            audio = denoise(noisy, RATE, settings).audio
            found.setdefault((place, kind, channels), []).append(scores(clean, audio, BINS))
    lines = []
    for (place, kind, channels), rows in sorted(found.items(), key=lambda item: item[0][:2]):
        cells = (tables.mean_and_error(column) for column in zip(*rows, strict=True))
        values = [tables.with_error(mean, error, 2) for mean, error in cells]
        lines.append([place, kind, channels, *values])
    made = caption("benchmarks.full_band_stereo", sys.argv[1:], ("alphamf", "numpy"))
    table = tables.markdown(["voice", "noise", "channels", *SCORES], lines)
    text = f"{table}\n\n{asked.count} files of speech at {SNR:g} dB. {made}"
    publish(PAGE, "full-band:stereo", text, write=asked.write)


if __name__ == "__main__":
    main()
