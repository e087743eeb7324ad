"""How much noise methods leave in pauses, and what they take of onsets.

For example: ``python -m benchmarks.pauses --rate 16000``.

Voices are those of the split dev whose pauses lie `QUIET_PAUSES_DB` below their speech or more:
recordings with a hiss of their own cannot tell. They are mixed with white and pink noise, a fan and
hum at `SNRS`. Two tables are printed:

- what is left in pauses, in dB of the speech, median over the voices;
- what is kept of the first 60 ms of speech after a pause of 200 ms where they are weak, `WEAK` dB
  below the loudest frame, in dB, median over all such onsets: what is in common with the clean
  sound, so that noise does not count. Those with more power above `FRICATIVE` than below, such as
  S and F, are shown apart, too.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from alphamf.audio.speech_level import QUIET_PAUSES_DB
from alphamf.tools import pool, tables
from alphamf.tools.arrays import Floats, Reals
from alphamf.training.refiner.recordings import sources
from benchmarks.clips import Clip, coloured, mono
from benchmarks.methods import names_of, run
from benchmarks.report import caption, options_of, run_main

SNRS = (10, 20, 25, 30, 40)
METHODS = "noisy,rnnoise,deepfilternet,low,fast"
LONGEST = 6.0
"""Most of a voice that is used, in seconds."""

FRAME = 0.02
"""Length in seconds of a frame whose level says whether it is a pause."""

SILENT = 45.0
"""Level in dB below the loudest tenth of frames from which on a frame is one of a pause."""

AROUND = 2
"""Frames before and after a pause that do not count, where windows reach into the speech."""

WEAK = (22.0, 40.0)
"""Range of the levels of weak onsets, in dB below the loudest frame."""

ONSET, BEFORE = 3, 10
"""Frames of an onset, and of the pause before it at least."""

FRICATIVE = 4000.0
"""Frequency in Hz above which a fricative has more power than below."""


class Found(NamedTuple):
    """What a method leaves in pauses, in dB of the speech, and keeps of each weak onset.

    An onset is what is kept of it in dB, and whether it is a fricative.
    """

    left: float
    onsets: list[tuple[float, bool]]


def white(rng: np.random.Generator, samples: int, rate: int) -> Reals:
    """Return white noise."""
    return rng.standard_normal(samples)


def pink(rng: np.random.Generator, samples: int, rate: int) -> Reals:
    """Return noise that falls by 3 dB an octave above 40 Hz."""
    return coloured(rng, samples, rate, 40.0, -0.5)


def fan(rng: np.random.Generator, samples: int, rate: int) -> Reals:
    """Return wind that falls by 5 dB an octave above 200 Hz, and eight harmonics of blades."""
    wind = coloured(rng, samples, rate, 200.0, -0.83)
    blades = rng.uniform(70, 250)
    return wind / wind.std() + 0.4 * _harmonics(rng, samples, rate, blades, 8)


def hum(rng: np.random.Generator, samples: int, rate: int) -> Reals:
    """Return the mains: 50 or 60 Hz with twenty harmonics."""
    return _harmonics(rng, samples, rate, float(rng.choice([50.0, 60.0])), 20)


NOISES = {"white": white, "pink": pink, "fan": fan, "hum": hum}


def _harmonics(
    rng: np.random.Generator, samples: int, rate: int, first: float, count: int
) -> Reals:
    time = np.arange(samples) / rate
    tones = (np.sin(2 * np.pi * (k * first * time + rng.random())) / k for k in range(1, count + 1))
    return np.sum(list(tones), axis=0)


def voices(rate: int, count: int) -> list[Path]:
    """Return files of voices with quiet pauses, evenly apart, as many of each corpus."""
    found = []
    corpora = ("speech-48k" if rate > 16000 else "speech-16k", "speech-crowd")
    for name in corpora:
        files = [Path(each.path) for each in sources(name, "dev", 0, QUIET_PAUSES_DB)]
        share = min(-(-count // len(corpora)), len(files))
        found += [files[k * len(files) // share] for k in range(share)]
    return found[:count]


def clips(path: Path, rate: int) -> Iterator[tuple[str, int, Clip]]:
    """Yield a voice in each noise at each SNR."""
    clean = mono(path, rate)[: int(LONGEST * rate)]
    level = np.sqrt(np.mean(clean.astype(float) ** 2))
    for k, (name, make) in enumerate(NOISES.items()):
        noise = make(np.random.default_rng([k, *path.stem.encode()]), len(clean), rate)
        noise *= level / np.sqrt(np.mean(noise**2))
        for snr in SNRS:
            noisy = (clean + 10 ** (-snr / 20) * noise).astype(np.float32)
            yield name, snr, Clip(path.stem, rate, clean, noisy)


def frame_levels(sound: Reals, rate: int) -> Reals:
    """Return the mean power of each frame of `FRAME` seconds."""
    size = round(FRAME * rate)
    blocks = sound[: len(sound) // size * size].reshape(-1, size).astype(float)
    found: Reals = np.mean(blocks**2, axis=1)
    return found


def pauses(clean: Floats, rate: int) -> Reals:
    """Say of each frame whether it is one of a pause, apart from speech on both sides."""
    from scipy.ndimage import binary_erosion

    levels = frame_levels(clean, rate)
    loud = np.mean(np.sort(levels)[-max(1, len(levels) // 10) :])
    silent = levels < loud * 10 ** (-SILENT / 10)
    found: Floats = binary_erosion(silent, iterations=AROUND, border_value=1)
    return found


def left_in_pauses(clean: Floats, out: Floats, rate: int) -> float:
    """Return the mean power in pauses over that of the clean speech, in dB."""
    silent = pauses(clean, rate)
    if not silent.any():
        return np.nan
    power = np.mean(frame_levels(out, rate)[silent]) / np.mean(clean.astype(float) ** 2)
    return float(10 * np.log10(power + 1e-12))


def onsets(clean: Floats, out: Floats, rate: int) -> list[tuple[float, bool]]:
    """Return what is kept of each weak onset, in dB, and whether it is a fricative."""
    levels = 10 * np.log10(frame_levels(clean, rate) + 1e-20)
    levels -= levels.max()
    size, found = round(FRAME * rate), []
    for k in range(BEFORE, len(levels) - ONSET):
        mean = 10 * np.log10(np.mean(10 ** (levels[k : k + ONSET] / 10)))
        starts = levels[k] > levels[k - BEFORE : k].max() + 6
        if starts and levels[k - BEFORE : k].max() < -SILENT and -WEAK[1] < mean < -WEAK[0]:
            said, heard = (
                each[k * size : (k + ONSET) * size].astype(float) for each in (clean, out)
            )
            kept = 20 * np.log10(max(said @ heard, 0) / (said @ said) + 1e-3)
            power = np.abs(np.fft.rfft(said)) ** 2
            high = np.fft.rfftfreq(len(said), 1 / rate) > FRICATIVE
            found.append((float(kept), bool(power[high].sum() > power[~high].sum())))
    return found


def measured(path: Path, rate: int, methods: list[str]) -> dict[tuple[str, int, str], Found]:
    """Return the measurements of a voice by noise, SNR and method."""
    found = {}
    for noise, snr, clip in clips(path, rate):
        for method in methods:
            out = run(method, clip)
            kept = onsets(clip.clean, out, rate)
            found[noise, snr, method] = Found(left_in_pauses(clip.clean, out, rate), kept)
    return found


Results = list[dict[tuple[str, int, str], Found]]


def left_table(results: Results, methods: list[str]) -> str:
    """Return the table of what is left in pauses."""
    lines = []
    for noise in NOISES:
        for snr in SNRS:
            cells = []
            for method in methods:
                values = [each[noise, snr, method].left for each in results]
                cells.append(f"{np.nanmedian(values):.1f}")
            lines.append([f"{noise} {snr}", *cells])
    return tables.markdown(["left in pauses, dB", *methods], lines)


def onset_table(results: Results, methods: list[str]) -> str:
    """Return the table of what is kept of weak onsets, of all and by their sound."""
    lines = []
    for snr in SNRS:
        kept = [
            [onset for each in results for n in NOISES for onset in each[n, snr, method].onsets]
            for method in methods
        ]
        for name, sounds in {
            "": (True, False),
            ", fricatives": (True,),
            ", others": (False,),
        }.items():
            chosen = [[level for level, high in each if high in sounds] for each in kept]
            cells = (f"{np.median(each):.1f}" if each else "-" for each in chosen)
            lines.append([f"{snr} dB{name} ({len(chosen[0])})", *cells])
    return tables.markdown(["kept of weak onsets, dB", *methods], lines)


def main() -> None:
    """Measure, and print the tables."""
    parser = options_of("benchmarks.pauses", __doc__)
    parser.add_argument("--rate", type=int, choices=(8000, 16000, 48000), default=16000)
    parser.add_argument("--voices", type=int, default=8, metavar="N", help="(default 8)")
    parser.add_argument("--methods", default=METHODS, metavar="A,B,...")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="(default 1)")
    asked = parser.parse_args()
    methods = names_of(asked.methods)
    files = voices(asked.rate, asked.voices)
    work = partial(measured, rate=asked.rate, methods=methods)
    results = list(pool.results(work, files, workers=asked.jobs))
    note = caption("benchmarks.pauses", sys.argv[1:], ("alphamf", "numpy"))
    parts = [left_table(results, methods), onset_table(results, methods)]
    print("\n\n".join([*parts, f"{len(files)} voices. {note}"]))


if __name__ == "__main__":
    run_main(main)
