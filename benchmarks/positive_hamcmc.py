r"""HAMCMC on positive factors in the denoiser, against SGRLD and EM at equal processor time.

A table of docs/samplers.md, without networks, NOIZEUS at 5 dB, the settings of the preset ``plain``
and dictionaries of the corpus's other sentences::

    python -m benchmarks.positive_hamcmc --clips 24 -o train.csv --write
    python -m benchmarks.positive_hamcmc --test -o test.csv --write --methods SGRLD EM \
        "HAMCMC without a wall"

Without ``--test`` the clips are of the train sentences, by cross-validation, as settings may be
chosen on them. A step of HAMCMC takes two gradients, so that its chains are shorter. Scores go to
a CSV as they are made; a run that was stopped goes on from there, and `--write` puts the table of
all that is in it into the page.
"""

from __future__ import annotations

import csv
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from alphamf.audio.reader import read
from alphamf.denoising.api import PRESETS, Settings, denoise
from alphamf.denoising.settings import HYPERPARAMETERS
from alphamf.evaluation.score import pesq, si_sdr, stoi
from alphamf.inference.samplers import compact
from alphamf.inference.samplers.hamcmc_positive import PositiveHAMCMC, PositiveHAMCMCState
from alphamf.inference.samplers.registry import SAMPLERS
from alphamf.learnt.dictionary import Dictionary
from alphamf.tools import tables
from alphamf.training.dictionary.api import train
from benchmarks.noizeus import OWN
from benchmarks.noizeus_corpus import Clip, corpus
from benchmarks.report import caption, options_of, write_section

PAGE = Path(__file__).parents[1] / "docs" / "samplers.md"
PACKAGES = ("alphamf", "numpy", "scipy", "pesq", "pystoi")
SCORES = ("SI-SDR dB", "PESQ", "ESTOI", "CPU s per s")

Found = dict[str, dict[str, list[float]]]
"""Scores by method and clip."""


@dataclass(frozen=True)
class WithoutPairs(PositiveHAMCMC):
    """HAMCMC on positive factors with H_0 alone: interleaved Langevin chains."""

    def step(self, rng: Any, state: PositiveHAMCMCState, target: Any) -> PositiveHAMCMCState:
        """Make one step, and empty the memory."""
        state = super().step(rng, state, target)
        s, y = np.zeros_like(state.chain.s), np.zeros_like(state.chain.y)
        chain = state.chain._replace(s=s, y=y, products=compact.products(s, y))
        return state._replace(chain=chain)


SAMPLERS["hamcmc-without-pairs"] = WithoutPairs
HYPERPARAMETERS["hamcmc-without-pairs"] = HYPERPARAMETERS["hamcmc-positive"]

PLAIN = PRESETS["plain"]
SHORT = replace(PLAIN, steps=160, keep=60)
METHODS: dict[str, Settings] = {
    "SGRLD": PLAIN,
    "EM": replace(PLAIN, sampler="em"),
    "HAMCMC, mirrored": replace(SHORT, sampler="hamcmc"),
    "HAMCMC without a wall": replace(SHORT, sampler="hamcmc-positive"),
    "the same without pairs": replace(SHORT, sampler="hamcmc-without-pairs"),
}


def measure(clip: Clip, settings: Settings, model: Dictionary) -> list[float]:
    """Return the scores of a denoised clip, and processor seconds per second of sound."""
    (clean, rate), (noisy, _) = read(clip.clean), read(clip.noisy)
    start = time.process_time()
    sound = denoise(noisy[:, 0], rate, settings, model=model, seed=0).audio
    spent = (time.process_time() - start) * rate / len(noisy)
    wanted = clean[:, 0]
    quality = pesq(wanted, sound, rate)
    return [si_sdr(wanted, sound), quality, stoi(wanted, sound, rate, extended=True), spent]


def scores(path: Path) -> Found:
    """Return the scores that a CSV has."""
    found: Found = {method: {} for method in METHODS}
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            for method, clip, *values in csv.reader(file):
                found[method][clip] = [float(value) for value in values]
    return found


def extend(path: Path, methods: list[str], clips: list[Clip], models: list[Dictionary]) -> None:
    """Score what a CSV does not have yet, clip by clip, in an order of methods that goes round."""
    found = scores(path)
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        for number, clip in enumerate(clips):
            name = f"{clip.noisy.parent.name}/{clip.noisy.stem}"
            for method in map(str, np.roll(methods, number)):
                if name not in found[method]:
                    row = measure(clip, METHODS[method], models[clip.fold])
                    writer.writerow([method, name, *(f"{value:.5f}" for value in row)])
                    file.flush()


def table(found: Found) -> str:
    """Return means with standard errors, and paired differences in SI-SDR from SGRLD."""
    rows = []
    for method, clips in found.items():
        if not clips:
            continue
        values = np.array(list(clips.values()))
        known = found["SGRLD"]
        pairs = [row[0] - known[clip][0] for clip, row in clips.items() if clip in known]
        cells = [method, str(len(clips))]
        for column, decimals in zip(values[:, :3].T, (2, 3, 3), strict=True):
            mean, error = tables.mean_and_error(column)
            cells.append(tables.with_error(mean, error, decimals))
        mean, error = tables.mean_and_error(pairs)
        change = "" if method == "SGRLD" else tables.with_error(mean, error, 3, "+")
        rows.append([*cells, f"{values[:, 3].mean():.2f}", change])
    return tables.markdown(["sampler", "clips", *SCORES, "SI-SDR against SGRLD's"], rows)


def main() -> None:
    """Run the command line."""
    parser = options_of("benchmarks.positive_hamcmc", __doc__)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--clips", type=int, metavar="N", help="(default: all)")
    parser.add_argument("--test", action="store_true", help="the test sentences, for once")
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.csv")
    asked = parser.parse_args()
    clips, training = corpus([5], not asked.test, asked.clips)
    models = [
        train(paths, rate=8000, rank=OWN.rank, alpha=OWN.alpha, context=OWN.context, seed=0)
        for paths in training
    ]
    extend(asked.output, asked.methods, clips, models)
    arguments = ["--test"] if asked.test else ["--clips", str(len(clips))]
    made = caption("benchmarks.positive_hamcmc", arguments, PACKAGES)
    text = f"{table(scores(asked.output))}\n\nMean ± standard error over the clips. {made}"
    print(text)
    if asked.write:
        section = "samplers:positive-test" if asked.test else "samplers:positive"
        write_section(PAGE, section, text, columns=None)


if __name__ == "__main__":
    main()
