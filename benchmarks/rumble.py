r"""What becomes of what lies below 60 Hz: of a voice whose recording rumbles, and of a noise's.

For example::

    python -m benchmarks.rumble --split dev -o rumble-dev.csv --write

Clips are those of ``benchmarks.front_clips`` at 16 kHz. To each is added what recordings of
LibriSpeech (split train) rumble: 7 to 13 dB below the voice, as a part of it, which a denoiser is
to keep; the very same, as a part of the noise; and, as a part of the noise, at up to 10 dB above
the voice. OUTPUT.csv has a line per clip, case and method. With ``--write`` the table goes to
BENCHMARKS.md.
"""

from __future__ import annotations

from functools import cache, partial
from typing import NamedTuple

import numpy as np

from alphamf.tools import pool, tables
from alphamf.tools.arrays import Floats
from benchmarks import compared
from benchmarks.front_clips import Clip, manifest, mono

RATE = 16000
METHODS = "noisy,plain,dtln,low,fast"
TOP = 60.0
"""Frequency in Hz below which there is rumble."""
LEAST = -13.0
"""Level of the rumble in dB of the recording, from which on one is used."""
CASES = {
    "none": None,
    "of the voice": (-13.0, -7.0),
    "of the noise": (-13.0, -7.0),
    "of the noise, loud": (0.0, 10.0),
}
"""What rumbles, and range of its level in dB of the voice."""


class Row(NamedTuple):
    """Scores of a clip in a case by method."""

    clip: str
    case: str
    scores: compared.Scored


def below(sound: Floats, rate: int) -> Floats:
    """Return what lies below `TOP`, without a constant offset; shape (samples,), as before."""
    spectrum = np.fft.rfft(sound)
    frequencies = np.fft.rfftfreq(len(sound), 1 / rate)
    spectrum[(frequencies < 4) | (frequencies >= TOP)] = 0
    return np.fft.irfft(spectrum, len(sound)).astype(np.float32)


@cache
def rumbles() -> list[Floats]:
    """Return what the recordings that rumble have below `TOP`, each shape (samples,)."""
    found = []
    for path, _, _ in manifest("librispeech-train", "train"):
        sound = mono(path, RATE)
        low = below(sound, RATE)
        if low.std() > sound.std() * 10 ** (LEAST / 20):
            found.append(low)
    return found


def with_rumble(number: int, clip: Clip, case: str) -> Clip:
    """Add rumble to a clip: to both of its sounds where it is the voice's own."""
    levels = CASES[case]
    if levels is None:
        return clip
    rng = np.random.default_rng((11, number))
    known = rumbles()
    rumble = np.resize(known[rng.integers(len(known))], len(clip.clean))
    wanted = clip.clean.std() * 10 ** (rng.uniform(*levels) / 20)
    rumble = (rumble * (wanted / rumble.std())).astype(np.float32)
    clean = clip.clean + rumble if case == "of the voice" else clip.clean
    return clip._replace(clean=clean, noisy=clip.noisy + rumble)


def measured(job: tuple[int, Clip], methods: list[str]) -> list[Row]:
    """Denoise a clip in every case by several methods, and score what they make of it."""
    number, clip = job
    return [
        Row(clip.name, case, compared.scored(with_rumble(number, clip, case), methods))
        for case in CASES
    ]


def table(rows: list[Row]) -> str:
    """Return a line for each case, as Markdown."""
    methods = list(rows[0].scores)
    lines = [
        [
            case,
            *(
                compared.cell([row.scores[name] for row in rows if row.case == case])
                for name in methods
            ),
        ]
        for case in CASES
    ]
    return tables.markdown(["rumble", *methods], lines)


def main() -> None:
    """Denoise, write the scores, and print the table."""
    module = "benchmarks.rumble"
    parser = compared.options(module, __doc__, clips=40, methods=METHODS)
    asked, methods, noisy = compared.numbered(parser, RATE)
    work = partial(measured, methods=methods)
    rows = [row for rows in pool.results(work, noisy, workers=asked.jobs) for row in rows]
    compared.write(asked.output, ["clip", "rumble"], ((row[:2], row.scores) for row in rows))
    text = f"{table(rows)}\n\nSI-SDR dB / PESQ / ESTOI."
    compared.finish(module, f"rumble:{asked.split}", text, write=asked.write)


if __name__ == "__main__":
    main()
