r"""Does a voice keep its place between the channels? The table of ``docs/log/in-and-out.md``.

Stereo mixtures of known images (`benchmarks.stereo_mixtures`) are denoised with separate channels,
with linked ones and with a joint model of both (`benchmarks.joint`). Compared with the clean
images: SI-SDR; the error of the level difference of the channels, in dB, in frames of weak speech
(10 to 30 dB below the level of the loud ones); the error of their phase difference there, in
degrees, weighted with the magnitude of the clean cells. For example::

    python -m benchmarks.stereo --count 6 --preset fast --write
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from alphamf import PRESETS, Settings, denoise
from alphamf.audio.stft import Frame, forward
from alphamf.evaluation.score import si_sdr
from alphamf.tools import jsonlines, tables
from alphamf.tools.arrays import Floats
from benchmarks.joint_posterior import denoised as joint
from benchmarks.report import caption, options_of, write_section
from benchmarks.stereo_mixtures import KINDS, RATE, VOICES, Mixture, mixtures

PAGE = Path(__file__).parents[1] / "docs" / "log" / "in-and-out.md"

SECTIONS = {"dev": "stereo", "test": "stereo-test"}
"""Of the page, by split."""

FRAME = Frame(1024, 512)

WEAK = (-30.0, -10.0)
"""Levels of weak speech below the mean of loud speech, in dB."""

Found = dict[tuple[str, str], list[list[float]]]
"""A row for each mixture, by its kind and how the channels are taken."""

SCORES = ("SI-SDR dB", "level error dB", "phase error °")


def scores(clean: Floats, found: Floats, bins: slice = slice(None)) -> list[float]:
    """Return `SCORES` of an output, shape (samples, 2), against the clean images.

    Parameters
    ----------
    clean, found
        At one rate.
    bins
        Of `FRAME`, in which level and phase are compared.
    """
    spectra, others = (
        np.stack([forward(np.ascontiguousarray(channel), FRAME)[bins] for channel in audio.T])
        for audio in (clean, found)
    )
    power, other = ((np.abs(each) ** 2).sum(axis=1) for each in (spectra, others))
    level = 10 * np.log10(power.mean(axis=0) + 1e-20)
    level -= 10 * np.log10(power.mean(axis=0)[level > level.max() - 30].mean())
    wander = np.abs(_difference(power) - _difference(other))
    cross, seen = spectra[0] * spectra[1].conj(), others[0] * others[1].conj()
    phase, weight = np.abs(np.degrees(np.angle(seen * cross.conj()))), np.abs(cross)
    weak = (WEAK[0] < level) & (level <= WEAK[1])
    return [
        float(np.mean([si_sdr(*pair) for pair in zip(clean.T, found.T, strict=True)])),
        float(wander[weak].mean()),
        float(np.average(phase[:, weak], weights=weight[:, weak])),
    ]


def _difference(power: Floats) -> Floats:
    difference: Floats = np.diff(10 * np.log10(power + 1e-12), axis=0)[0]
    return difference


def measured(mixture: Mixture, preset: str, ways: list[str]) -> dict[str, list[float]]:
    """Return `SCORES`, and seconds of processor time per second, by how the channels are taken."""
    found = {"noisy": [*scores(mixture.clean, mixture.noisy), 0.0]}
    for name in ways:
        started = time.process_time()
        audio = WAYS[name](mixture.noisy, PRESETS[preset])
        seconds = time.process_time() - started
        found[name] = [*scores(mixture.clean, audio), seconds * RATE / len(audio)]
    return found


def _channels(name: str, noisy: Floats, settings: Settings) -> Floats:
    return denoise(noisy, RATE, replace(settings, channels=name)).audio


WAYS: dict[str, Callable[[Floats, Settings], Floats]] = {
    "separate": partial(_channels, "separate"),
    "linked": partial(_channels, "linked"),
    "joint": joint,
    "joint alone": partial(joint, alone=True),
}
"""How the channels may be taken; the joint model is `benchmarks.joint_posterior`'s."""


def table(found: Found) -> str:
    """Return the means of what was found of mixtures and channels, with standard errors."""
    groups = dict(sorted(found.items(), key=lambda item: KINDS.index(item[0][0])))
    for (_, name), rows in found.items():
        groups["all", name] = groups.get(("all", name), []) + rows
    lines = []
    for (kind, name), rows in groups.items():
        lines.append([kind, name, *(_cell(column) for column in zip(*rows, strict=True))])
    return tables.markdown(["mixture", "channels", *SCORES, "CPU s per s"], lines)


def _cell(values: Sequence[float]) -> str:
    return tables.with_error(*tables.mean_and_error(values), 2)


def main() -> None:
    """Print the table, or write it into the page."""
    parser = options_of("benchmarks.stereo", __doc__)
    parser.add_argument("--count", type=int, default=6, help=f"voices, at most {VOICES}")
    parser.add_argument("--snr", type=float, default=5.0, help="in dB")
    parser.add_argument("--kinds", default=",".join(KINDS), help="with commas between")
    parser.add_argument("--ways", default="separate,linked,joint", help=f"of {', '.join(WAYS)}")
    parser.add_argument("--preset", default="fast")
    parser.add_argument("--split", default="dev", choices=("dev", "test"), help="of the corpora")
    parser.add_argument("--results", type=Path, help="JSON lines, with which a run goes on")
    parser.add_argument("--write", action="store_true", help="into docs/log/in-and-out.md")
    asked = parser.parse_args()
    known: dict[str, dict[str, list[float]]] = {}
    if asked.results and asked.results.exists():
        known = {line["name"]: line["scores"] for line in jsonlines.read(asked.results)}
    found: Found = {}
    for mixture in mixtures(asked.count, asked.snr, tuple(asked.kinds.split(",")), asked.split):
        if mixture.name not in known:
            known[mixture.name] = measured(mixture, asked.preset, asked.ways.split(","))
            if asked.results:
                line = {"name": mixture.name, "scores": known[mixture.name]}
                jsonlines.append(asked.results, line)
            print(mixture.name, file=sys.stderr, flush=True)
        for name, row in known[mixture.name].items():
            found.setdefault((mixture.kind, name), []).append(row)
    text = f"{table(found)}\n\n{asked.count} {asked.split} voices at {asked.snr:g} dB. " + caption(
        "benchmarks.stereo", sys.argv[1:], ("alphamf", "numpy")
    )
    if asked.write:
        write_section(PAGE, SECTIONS[asked.split], text)
    else:
        print(text)


if __name__ == "__main__":
    main()
