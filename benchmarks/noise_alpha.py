r"""Is alpha of a noise found, and does it help to know it? The tables of ``docs/guide/noise.md``.

``found``: speech (`benchmarks.front_clips`) in stable noise of known alpha, white over time and so
of the same alpha in every cell; what `Denoised.noise_tail` says of it. ``helps``: clips of
development, denoised as the preset has it and again with the alpha that the first time has found.
For example::

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.noise_alpha helps --rate 16000 --clips 8 --write
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from alphamf.denoising.api import PRESETS, denoise
from alphamf.factorization.stable import positive_stable
from alphamf.tools import tables
from alphamf.tools.arrays import Floats
from benchmarks.clip_scores import SCORES, scores
from benchmarks.front_clips import Clip, clips
from benchmarks.report import caption, options_of, publish

PAGE = Path(__file__).parents[1] / "docs" / "guide" / "noise.md"
ALPHAS = (0.8, 1.2, 1.4, 1.6, 1.8, 2.0)
LOUDNESS = 0.2
"""Median of the noise's amplitude, in standard deviations of the speech."""

PRESET = "fast"


def found(chosen: list[Clip]) -> str:
    """Return a table of true and found alphas."""
    lines = []
    for alpha in ALPHAS:
        values = []
        for k, clip in enumerate(chosen):
            rng = np.random.default_rng((3, k))
            clean = np.pad(clip.clean, (clip.rate, 0))
            phi = positive_stable(rng, alpha, np.empty(len(clean)))
            noise = np.sqrt(phi / 2) * rng.standard_normal(len(clean))
            noise *= LOUDNESS * clip.clean.std() / np.median(np.abs(noise))
            values.append(alpha_of((clean + noise).astype(np.float32), clip.rate))
        mean, error = tables.mean_and_error(np.array(values))
        lines.append(
            [f"{alpha:.1f}", tables.with_error(mean, error, 2), f"{np.std(values, ddof=1):.2f}"]
        )
        print(f"\ralpha {alpha}", end="", file=sys.stderr)
    return tables.markdown(["true alpha", "found", "deviation of a clip"], lines)


def alpha_of(audio: Floats, rate: int) -> float:
    """Return the alpha that is found, NaN where there are no pauses."""
    tail = denoise(audio, rate, PRESET).noise_tail
    return float("nan") if tail is None or tail.alpha is None else tail.alpha


def helps(chosen: list[Clip]) -> str:
    """Return a table of the scores with the preset's alpha, and what the found one changes."""
    rows = []
    for k, clip in enumerate(chosen):
        once = denoise(clip.noisy, clip.rate, PRESET)
        alpha = once.noise_tail.alpha if once.noise_tail else None
        if alpha is None:
            continue
        settings = replace(PRESETS[PRESET], alpha_noise=alpha)
        again = denoise(clip.noisy, clip.rate, settings)
        before, after = (
            np.array(scores(clip.clean, each.audio, clip.rate)) for each in (once, again)
        )
        rows.append([alpha, *before, *(after - before)])
        print(f"\r{k + 1} of {len(chosen)} clips", end="", file=sys.stderr)
    groups = {
        "all": rows,
        "below 1.8": [row for row in rows if row[0] < 1.8],
        "1.8 and more": [row for row in rows if row[0] >= 1.8],
    }
    lines = []
    for name, own in groups.items():
        if len(own) < 2:
            continue
        cells = []
        for column in np.array(own).T[1:]:
            mean, error = tables.mean_and_error(column[np.isfinite(column)])
            cells.append(tables.with_error(mean, error, 3))
        lines.append([name, str(len(own)), *cells])
    changes = [f"change of {name}" for name in SCORES]
    return tables.markdown(["found alpha", "clips", *SCORES, *changes], lines)


def main() -> None:
    """Run the command line, and print the table."""
    parser = options_of("benchmarks.noise_alpha", __doc__)
    parser.add_argument("what", choices=("found", "helps"))
    parser.add_argument("--clips", type=int, default=8, metavar="N")
    parser.add_argument("--rate", type=int, choices=(8000, 16000), default=16000)
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    asked = parser.parse_args()
    table = (found if asked.what == "found" else helps)(clips(asked.rate, asked.clips))
    print(file=sys.stderr)
    options = [asked.what, "--clips", str(asked.clips), "--rate", str(asked.rate)]
    note = caption("benchmarks.noise_alpha", options, ("alphamf", "numpy"))
    name = f"alpha-{asked.what}-{asked.rate}"
    publish(PAGE, name, f"{table}\n\n{note}", write=asked.write)


if __name__ == "__main__":
    main()
