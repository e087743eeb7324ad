"""A recording at 48 kHz before and after: the picture of ``docs/full-band.md``.

The first development mixture in a kind of noise whose voice no network has heard::

    python -m benchmarks.full_band_picture
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from alphamf.audio.stft import Frame, forward
from alphamf.denoising.api import denoise
from alphamf.denoising.weights import find
from alphamf.tools.arrays import Floats
from benchmarks.full_band import ROOT
from benchmarks.full_band_mixtures import RATE, mixtures

PICTURE = ROOT / "docs" / "figures" / "full-band.png"
UNHEARD, KIND = "hadouken", "hiss"
FRAME = Frame(1024, 256)
SECONDS = 4


def main() -> None:
    """Draw the noisy sound, both ways to denoise it, and the voice alone."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    mixture = next(m for m in mixtures("dev") if UNHEARD in m.name and m.kind == KIND)
    weights = find(RATE)
    bare = replace(weights, dictionary=replace(weights.dictionary, above=None), high_band=None)
    sounds = {
        f"noisy ({KIND}, {mixture.snr} dB)": mixture.noisy,
        "one gain above 7 kHz": denoise(mixture.noisy, RATE, "fast", model=bare).audio,
        "with the bands": denoise(mixture.noisy, RATE, "fast", model=weights).audio,
        "the voice alone": mixture.clean,
    }
    figure = Figure((10, 7), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2, 2, sharex=True, sharey=True).ravel()
    for panel, (title, sound) in zip(panels, sounds.items(), strict=True):
        _draw(panel, sound[: SECONDS * RATE], title)
    figure.savefig(PICTURE, dpi=80)


def _draw(panel: Any, sound: Floats, title: str) -> None:
    levels = 20 * np.log10(np.abs(forward(sound, FRAME)) + 1e-6)
    span = (0, len(sound) / RATE, 0, RATE / 2000)
    panel.imshow(levels, origin="lower", aspect="auto", extent=span, vmin=-50, vmax=30)
    panel.set(title=title, xlabel="s", ylabel="kHz")


if __name__ == "__main__":
    main()
