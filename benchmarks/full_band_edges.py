r"""Does anything appear above the edge of a sound's band? A table of ``docs/full-band.md``.

Mixtures of `benchmarks.full_band_mixtures` (split ``dev``) whose band ends early: they were at
16, 22.05 or 32 kHz before, or in MP3, and are denoised at 48 kHz. For example::

    python -m benchmarks.full_band_edges --write
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import soundfile

from alphamf import denoise
from alphamf.audio.resample import resample
from alphamf.audio.stft import Frame, forward, sqrt_hann
from alphamf.tools import tables
from alphamf.tools.arrays import Floats
from alphamf.tools.blas import one_thread
from benchmarks.full_band_mixtures import RATE, mixtures
from benchmarks.report import caption, options_of, publish

PAGE = Path(__file__).parents[1] / "docs" / "full-band.md"
FRAME = Frame(4096, 2048)
WINDOW = sqrt_hann(FRAME.n_fft) ** 4
"""Its side lobes are below -100 dB from 100 Hz on."""

NOTHING = -80.0
"""Level in dB below that of the sound that counts as nothing."""

MARGIN = 500.0
"""From the edge to where nothing may appear, in Hz."""

RATES = (16000, 22050, 32000)
COMPRESSIONS = (0.5, 0.8, 0.9)
"""Of MP3, as libsndfile has it, from 0 (best) to 1."""


def spectrum(sound: Floats, rate: int) -> tuple[Floats, Floats]:
    """Return frequencies in Hz, and the energy at and above each, in dB of the whole sound's.

    Parameters
    ----------
    sound
        Shape (samples,).
    rate
        Sampling rate in Hz.
    """
    spectra = forward(sound, FRAME, WINDOW)[:, 2:-2]  # those at the ends hold steps to silence
    power = (np.abs(spectra).astype(float) ** 2).sum(axis=1)
    energy = power[::-1].cumsum()[::-1]
    return np.arange(FRAME.bins) * rate / FRAME.n_fft, 10 * np.log10(energy / energy[0] + 1e-30)


def edge(sound: Floats, rate: int) -> float:
    """Return the frequency in Hz above which there is `NOTHING`."""
    frequencies, above = spectrum(sound, rate)
    return float(frequencies[np.flatnonzero(above > NOTHING)[-1]])


def level_above(sound: Floats, rate: int, frequency: float) -> float:
    """Return the energy above a frequency in Hz, in dB of the whole sound's."""
    frequencies, above = spectrum(sound, rate)
    return float(above[frequencies >= frequency][0])


def limited(sound: Floats) -> Iterator[tuple[str, Floats]]:
    """Yield names and sounds of a band that ends early, at 48 kHz as the sound."""
    for rate in RATES:
        yield f"{rate / 1000:g} kHz", resample(resample(sound, RATE, rate), rate, RATE)
    for compression in COMPRESSIONS:
        file = io.BytesIO()
        options = {"format": "MP3", "compression_level": compression}
        soundfile.write(file, sound, RATE, **options)
        file.seek(0)
        yield f"MP3, compression {compression:g}", soundfile.read(file, dtype="float32")[0]


@one_thread()
def main() -> None:
    """Print the table, or write it into the page."""
    parser = options_of("benchmarks.full_band_edges", __doc__)
    parser.add_argument("--count", type=int, default=6, help="mixtures")
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--write", action="store_true", help="into docs/full-band.md")
    asked = parser.parse_args()
    found: dict[str, list[tuple[float, float, float]]] = {}
    for mixture in mixtures("dev", asked.count):
        for name, sound in limited(mixture.noisy):
            top = edge(sound, RATE)
            after = denoise(sound, RATE, asked.preset).audio
            levels = [level_above(each, RATE, top + MARGIN) for each in (sound, after)]
            found.setdefault(name, []).append((top, levels[0], levels[1]))
        print(mixture.name, file=sys.stderr, flush=True)
    rows = [
        [name, f"{np.mean([row[0] for row in each]):.0f}"]
        + [f"{max(row[k] for row in each):.1f}" for k in (1, 2)]
        for name, each in found.items()
    ]
    headings = ["was before", "edge Hz", "most above it, input dB", "most above it, output dB"]
    made = caption("benchmarks.full_band_edges", sys.argv[1:], ("alphamf", "numpy"))
    text = f"{tables.markdown(headings, rows)}\n\n{asked.count} mixtures. {made}"
    publish(PAGE, "full-band:edges", text, write=asked.write)


if __name__ == "__main__":
    main()
