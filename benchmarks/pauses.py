r"""How much noise methods leave in pauses and in faint speech, and what they take of onsets.

For example, below and above 8 kHz::

    python -m benchmarks.pauses --rate 16000 -o pauses-16k.csv
    python -m benchmarks.pauses --rate 48000 -o pauses-48k.csv

Voices are those of the split dev whose pauses lie `QUIET_PAUSES_DB` below their speech or more, by
the manifests of `CORPORA`: recordings with a hiss of their own cannot tell. They are mixed with
white and pink noise, a fan and hum at `SNRS`. OUTPUT.csv has a line per voice, noise, SNR and
method.
Three tables are printed:

- what is left in pauses, in dB of the speech (at 48 kHz also of both above 8 kHz alone), median
  over the voices;
- the mean level of what comes out where the clean speech has a certain level, in dB of the loudest
  cell of the voice, mean over voices and noises at `CURVE_SNR`; the truth is the column `clean`;
- what is kept of the first 60 ms of speech after a pause of 200 ms where they are weak, `WEAK` dB
  below the loudest frame, in dB, median over all such onsets: what is in common with the clean
  sound, so that noise does not count. Those with more power above `FRICATIVE` than below, such as
  S and F, are shown apart, too.

Other denoisers come with ``pip install 'alphamf[peers]'``.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from alphamf.audio import stft
from alphamf.audio.speech_level import QUIET_PAUSES_DB
from alphamf.audio.stft import Frame
from alphamf.tools import pool, tables
from alphamf.tools.arrays import Floats, Reals
from alphamf.training.refiner.recordings import sources
from benchmarks.front_clips import Clip, mono
from benchmarks.low_latency import method_names, run
from benchmarks.report import caption, options_of, run_main

CORPORA = {
    8000: ("speech-16k", "speech-crowd"),
    16000: ("speech-16k", "speech-crowd"),
    48000: ("speech-48k", "speech-crowd"),
}
"""Corpora of voices by rate in Hz."""

SNRS = (10, 20, 25, 30, 40)
CURVE_SNR = 20
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

LEVELS = tuple(range(0, -90, -10))
"""Upper ends of the classes of cells in dB; the last class has no lower one."""

EDGE = 8000.0
"""Frequency in Hz above which levels are measured apart."""


class Found(NamedTuple):
    """Measurements of a method on a clip.

    Attributes
    ----------
    left, left_above
        Mean power in pauses over that of the speech, in dB, of all and of what lies above `EDGE`;
        NaN where there is nothing.
    curve
        Mean power of the cells in each of the classes `LEVELS`, and the number of cells in it, of
        the loudest clean cell's power; shape (classes, 2).
    onsets
        What is kept of each weak onset, in dB, and whether it is a fricative.
    """

    left: float
    left_above: float
    curve: Reals
    onsets: list[tuple[float, bool]]


def white(rng: np.random.Generator, samples: int, rate: int) -> Reals:
    """Return white noise."""
    return rng.standard_normal(samples)


def pink(rng: np.random.Generator, samples: int, rate: int) -> Reals:
    """Return noise that falls by 3 dB an octave above 40 Hz."""
    return _coloured(rng, samples, rate, 40.0, -0.5)


def fan(rng: np.random.Generator, samples: int, rate: int) -> Reals:
    """Return wind that falls by 5 dB an octave above 200 Hz, and eight harmonics of blades."""
    wind = _coloured(rng, samples, rate, 200.0, -0.83)
    blades = rng.uniform(70, 250)
    return wind / wind.std() + 0.4 * _harmonics(rng, samples, rate, blades, 8)


def hum(rng: np.random.Generator, samples: int, rate: int) -> Reals:
    """Return the mains: 50 or 60 Hz with twenty harmonics."""
    return _harmonics(rng, samples, rate, float(rng.choice([50.0, 60.0])), 20)


NOISES = {"white": white, "pink": pink, "fan": fan, "hum": hum}


def _coloured(rng: np.random.Generator, samples: int, rate: int, low: float, power: float) -> Reals:
    gain = np.maximum(np.fft.rfftfreq(samples, 1 / rate), low) ** power
    found: Reals = np.fft.irfft(np.fft.rfft(rng.standard_normal(samples)) * gain, samples)
    return found


def _harmonics(
    rng: np.random.Generator, samples: int, rate: int, first: float, count: int
) -> Reals:
    time = np.arange(samples) / rate
    tones = (np.sin(2 * np.pi * (k * first * time + rng.random())) / k for k in range(1, count + 1))
    return np.sum(list(tones), axis=0)


def voices(rate: int, count: int) -> list[Path]:
    """Return files of voices with quiet pauses, evenly apart, as many of each corpus."""
    found = []
    for name in CORPORA[rate]:
        files = [Path(each.path) for each in sources(name, "dev", 0, QUIET_PAUSES_DB)]
        share = min(-(-count // len(CORPORA[rate])), len(files))
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


def above_edge(sound: Reals, rate: int) -> Reals:
    """Return what lies above `EDGE`, up to 20 kHz, by a filter that hardly rings."""
    from scipy.signal import butter, sosfiltfilt

    band = butter(6, (EDGE, 20000), "bandpass", fs=rate, output="sos")
    found: Reals = sosfiltfilt(band, sound.astype(float))
    return found


def level_above(clean: Floats, out: Floats, rate: int) -> float:
    """Return the same as `left_in_pauses` of what lies above `EDGE`, in the pauses of the whole."""
    silent = pauses(clean, rate)
    if rate <= 2 * EDGE or not silent.any():
        return np.nan
    speech, heard = (above_edge(each, rate) for each in (clean, out))
    power = np.mean(frame_levels(heard, rate)[silent]) / np.mean(speech**2)
    return float(10 * np.log10(power + 1e-12))


def curve(clean: Floats, out: Floats, rate: int) -> Reals:
    """Return sums of powers and numbers of the cells by their clean level, as `Found.curve`."""
    frame = Frame(rate // 64 * 2, rate // 128)
    truth, heard = (np.abs(stft.forward(each, frame)) ** 2 for each in (clean, out))
    level = 10 * np.log10(truth / truth.max() + 1e-20)
    lower = [*LEVELS[1:], -np.inf]
    classes = [(level <= top) & (level > low) for top, low in zip(LEVELS, lower, strict=True)]
    return np.array([[heard[each].sum() / truth.max(), each.sum()] for each in classes])


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
            out = clip.clean if method == "clean" else run(method, clip)[: len(clip.clean)]
            each = left_in_pauses(clip.clean, out, rate), level_above(clip.clean, out, rate)
            rest = curve(clip.clean, out, rate), onsets(clip.clean, out, rate)
            found[noise, snr, method] = Found(*each, *rest)
    return found


Results = list[dict[tuple[str, int, str], Found]]


def left_table(results: Results, methods: list[str], field: str) -> str:
    """Return the table of what is left in pauses, or above the edge there."""
    lines = []
    for noise in NOISES:
        for snr in SNRS:
            cells = []
            for method in methods:
                values = [getattr(each[noise, snr, method], field) for each in results]
                cells.append(f"{np.nanmedian(values):.1f}")
            lines.append([f"{noise} {snr}", *cells])
    where = "left in pauses, dB" if field == "left" else "the same from 8 to 20 kHz"
    return tables.markdown([where, *methods], lines)


def curve_table(results: Results, methods: list[str]) -> str:
    """Return the table of mean levels by the level of the clean cells."""
    lines = []
    for k, top in enumerate(LEVELS):
        name = f"{top} to {top - 10} dB" if k + 1 < len(LEVELS) else f"under {top} dB"
        cells = []
        for method in methods:
            rows = [each[noise, CURVE_SNR, method].curve[k] for each in results for noise in NOISES]
            power, cells_of = np.sum(rows, axis=0)
            cells.append(f"{10 * np.log10(power / cells_of + 1e-12):.1f}" if cells_of else "-")
        lines.append([name, *cells])
    return tables.markdown([f"cells at {CURVE_SNR} dB", *methods], lines)


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
    parser.add_argument("--rate", type=int, choices=tuple(CORPORA), default=16000)
    parser.add_argument("--voices", type=int, default=8, metavar="N", help="(default 8)")
    parser.add_argument("--methods", default=METHODS, metavar="A,B,...")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="(default 1)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.csv")
    asked = parser.parse_args()
    methods = method_names(asked.methods)
    files = voices(asked.rate, asked.voices)
    names = ["clean", *methods]
    work = partial(measured, rate=asked.rate, methods=names)
    results = list(pool.results(work, files, workers=asked.jobs))
    with asked.output.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            ["voice", "noise", "snr", "method", "left", "left above 8 kHz", "onsets", "fricatives"]
        )
        for path, each in zip(files, results, strict=True):
            for (noise, snr, method), row in each.items():
                kept = " ".join(f"{level:.1f}" for level, _ in row.onsets)
                high = " ".join(f"{level:.1f}" for level, high in row.onsets if high)
                values = (f"{row.left:.2f}", f"{row.left_above:.2f}", kept, high)
                writer.writerow([path.stem, noise, snr, method, *values])
    parts = [left_table(results, names, "left")]
    if asked.rate > 2 * EDGE:
        parts.append(left_table(results, names, "left_above"))
    parts += [curve_table(results, names), onset_table(results, names)]
    note = caption("benchmarks.pauses", sys.argv[1:], ("alphamf", "numpy"))
    print("\n\n".join([*parts, f"{len(files)} voices. {note}"]))


if __name__ == "__main__":
    run_main(main)
