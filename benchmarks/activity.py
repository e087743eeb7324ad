r"""How well speech is found: the table of ``docs/log/in-and-out.md``.

A sentence of each voice of `benchmarks.stereo_mixtures`, with a second of silence before and after
it, in noises of the same. Speech is, by the clean sentence, what is at most 20 dB below its active
level, with pauses of less than 0.3 s. Voices and noises are others than those that the weights in
`alphamf.denoising.activity` were fitted on. For example::

    python -m benchmarks.activity --count 10 --preset fast --write
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from alphamf import PRESETS, denoise, speech_stretches
from alphamf.audio.speech_level import active_power
from alphamf.denoising.activity import LEAST
from alphamf.tools import tables
from alphamf.tools.arrays import Floats
from benchmarks.report import caption, options_of, write_section
from benchmarks.stereo_mixtures import RATE, SAMPLES, VOICES, noises, voices

PAGE = Path(__file__).parents[1] / "docs" / "log" / "in-and-out.md"
BELOW = 20.0
"""Level of the softest speech below the active level, in dB."""

REACH = 512
"""Samples to both sides of a frame's middle."""

LEVELS = (None, 15.0, 5.0)
"""Signal-to-noise ratios in dB; None: no noise."""


def truth(clean: Floats, times: Floats) -> list[bool]:
    """Return whether there is speech at each of some times in seconds."""
    middles = (np.round(times * RATE) + REACH).astype(int)
    power = np.cumsum(np.pad(clean**2, REACH + 1))
    level = (power[np.minimum(middles + REACH, len(power) - 1)] - power[middles - REACH]) / (
        2 * REACH
    )
    loud = (level > active_power(clean, RATE) * 10 ** (-BELOW / 10)).astype(float)
    return _inside(loud, times)


def _inside(activity: Floats, times: Floats) -> list[bool]:
    found = speech_stretches(activity, times)
    return [any(start <= time <= end for start, end, _ in found) for time in times]


def main() -> None:
    """Print the table, or write it into the page."""
    parser = options_of("benchmarks.activity", __doc__)
    parser.add_argument("--count", type=int, default=VOICES, help=f"voices, at most {VOICES}")
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--write", action="store_true", help="into docs/log/in-and-out.md")
    asked = parser.parse_args()
    rows: dict[float | None, list[list[float]]] = {}
    silence = np.zeros(RATE)
    for k, voice in enumerate(voices(last=True)[: asked.count]):
        clean = np.concatenate([silence, voice[: SAMPLES // 2], silence])
        for snr in LEVELS:
            noise = noises()[(3 * k + 2) % len(noises())][: len(clean)]
            scale = np.sqrt((voice**2).mean() / (noise**2).mean())
            scale *= 0 if snr is None else 10 ** (-snr / 20)
            mixed = (clean + scale * noise).astype(np.float32)
            found = denoise(mixed, RATE, PRESETS[asked.preset])
            there = np.array(truth(clean, found.frame_times))
            frames, heard = found.activity >= LEAST, _inside(found.activity, found.frame_times)
            sure = np.array(heard)
            ends = [np.flatnonzero(each)[[0, -1]] for each in (there, sure) if each.any()]
            apart = np.abs(ends[0] - ends[-1]).mean() * found.frame_times[1]
            rows.setdefault(snr, []).append(
                [
                    100 * (~frames[there]).mean(),
                    100 * frames[~there].mean(),
                    100 * (~sure[there]).mean(),
                    100 * sure[~there].mean(),
                    apart,
                ]
            )
        print(k, file=sys.stderr, flush=True)
    lines = []
    for level, found_rows in rows.items():
        cells = (tables.mean_and_error(column) for column in zip(*found_rows, strict=True))
        name = "none" if level is None else f"{level:g}"
        lines.append([name, *(tables.with_error(mean, error, 2) for mean, error in cells)])
    headings = ["noise, SNR dB", "frames missed %", "false %", "stretches missed %", "false %"]
    table = tables.markdown([*headings, "ends off by s"], lines)
    text = f"{table}\n\n{asked.count} voices. " + caption(
        "benchmarks.activity", sys.argv[1:], ("alphamf", "numpy")
    )
    if asked.write:
        write_section(PAGE, "activity", text)
    else:
        print(text)


if __name__ == "__main__":
    main()
