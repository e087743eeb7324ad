r"""``alpha-mf-speech-search``: tune hyperparameters, with equal trials per method.

Each trial draws all hyperparameters of its method at random, uniformly in their logarithms, and
runs 2500 steps (in full form) on the tuning clips, which are neither in W's training set nor in the
test. c is the unit of :math:`|X|^2`; a range is for c = 1, and is multiplied by the power of c
in the last column:

========================  =======================  ======================
hyperparameter            range                    unit
========================  =======================  ======================
c                         1 to 1e6
step h of SGLD, h gamma   1e-7 to 1e-4             :math:`c^{1.2}`
gamma                     .01 to 1000              none
lambda (trust) of HAMCMC  1e2 to 1e7               :math:`c^{-1.2}`
M (memory of HAMCMC)      2, 3, 5 or 8
step h of PSGLD           1e-5 to 1e-1             :math:`c^{0.6}`
lambda of PSGLD, damping  1e-1 to 1e4              :math:`c^{-0.6}`
========================  =======================  ======================

PSGLD's alpha, the decay of its averages, is .9 as printed.

The paper's step sizes depend on the unit of :math:`|X|^2`, which it does not print. In a unit c the
factors of a source are :math:`c^{\alpha/2}` times as large: H of the speech, whose W is fixed; W
and H of the noise by half of the exponent each. Priors and starting values are scaled alike, so the
posterior is the same: the unit is a hyperparameter of the samplers alone.

W is trained on the clean speech of 17 train sentences, hyperparameters are chosen on noisy clips of
the other three (`TUNING`), and the table is of the test sentences. The six voices are the same in
all parts, as in the paper.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from alphamf.audio import stft
from alphamf.audio.reader import read
from alphamf.denoising.sampling import bin_levels, sources
from alphamf.denoising.settings import PRESETS
from alphamf.errors import DivergenceError
from alphamf.factorization.alpha_mf import AlphaMFTarget
from alphamf.factorization.priors import Gamma
from alphamf.inference.chain import run
from alphamf.inference.random import START, Key, generator
from alphamf.inference.records import Mean
from alphamf.inference.samplers.hamcmc import HAMCMC
from alphamf.inference.samplers.langevin import PSGLD, SGLD
from alphamf.learnt.dictionary import Dictionary
from alphamf.research.corpora import CORPORA, find
from alphamf.research.experiments.base import Job, JobRecord, Numbers, blank_panels
from alphamf.research.experiments.hamcmc.gibbs import Gibbs, Interleaved
from alphamf.scores.score import sdr
from alphamf.tools.arrays import Floats
from alphamf.tools.tables import read_manifest
from alphamf.training.dictionary.api import train

SPEECH_PRIOR = Gamma(1.0, 300.0)
"""Prior of H of the speech at a mean power of one; the rate is from a search on three train
signals: docs/experiments/searches.md."""

SETTINGS = replace(PRESETS["paper"], warm_up=0, prior_speech=SPEECH_PRIOR)

KEPT = SETTINGS.keep / SETTINGS.steps
"""Proportion of the steps that is averaged: the last 200 of 2500."""


class Start(NamedTuple):
    """The posterior of a clip, and the initial position for all methods."""

    target: AlphaMFTarget
    theta: Floats


def start(power: Floats, model: Dictionary, seed: int, *, unit: float, blocks: int) -> Start:
    """Return the posterior given |X|^2 scaled to a mean of `unit` per bin, and a start.

    `power`: |X|^2, shape (bins, frames).
    """
    level = bin_levels(power)
    speech, noise = sources(model, SETTINGS, level)
    by_speech, by_noise = unit ** (speech.alpha / 2), unit ** (noise.alpha / 4)
    parts = [
        replace(
            source,
            level=source.level * factor,
            prior_gains=Gamma(prior.shape, prior.rate / factor),
        )
        for source, prior, factor in (
            (speech, SPEECH_PRIOR, by_speech),
            (noise, Gamma(30.0, 30.0), by_noise),
        )
    ]
    target = AlphaMFTarget(power * (np.float32(unit) / level), parts, blocks=blocks)
    theta = target.start(generator(seed, Key.CHAIN, START))
    target.unpack(theta)[1][0][...] *= by_noise
    return Start(target, theta)


def mean_chain_gain(begin: Start, sampler: Any, steps: int, seed: int) -> tuple[Floats, float]:
    """Run a chain; return the mean gain over its last steps, and the CPU seconds."""
    kept = max(1, round(KEPT * steps))
    record = Mean(
        lambda theta, target: target.gain(theta),
        burn_in=steps - kept,
        thin=min(SETTINGS.thin, kept),
    )
    began = time.process_time()
    chain = run(begin.target, sampler, steps=steps, seed=seed, start=begin.theta, record=record)
    for _ in chain:
        pass
    return record.mean, time.process_time() - began


def mean_gibbs_gain(
    begin: Start, sweeps: int, seed: int, *, collapsed: bool
) -> tuple[Floats, float]:
    """Return the mean gain over the last third of Gibbs sweeps, and the CPU seconds."""
    rng = generator(seed, 0, 1)
    began = time.process_time()
    chain = Gibbs(begin.target, rng, begin.theta, collapsed=collapsed)
    total: Floats = np.zeros_like(begin.target.power)
    kept = max(1, sweeps // 3)
    for sweep in range(sweeps):
        chain.sweep(rng)
        if sweep >= sweeps - kept:
            total += chain.gain() / np.float32(kept)
    return total, time.process_time() - began


def restored_sdr(spectrum: stft.Complexes, gain: Floats, model: Dictionary, clean: Floats) -> float:
    """Return the SDR in dB of a spectrum times a gain, in the time domain."""
    return sdr(clean, stft.inverse(spectrum * gain, model.frame, len(clean)))


SNR = "5"

TUNING = (("sp05", "babble"), ("sp14", "car"), ("sp24", "street"))
"""Sentence and noise of the clips that hyperparameters are chosen on."""

Pair = tuple[str, str]
"""Paths of a noisy file and of its clean one, relative to the corpus's folder."""


def test_clips() -> list[Pair]:
    """List the 80 noisy files at 5 dB of the test sentences, with their clean ones, shuffled.

    They are shuffled so that any part of the list has different sentences and noises.
    """
    chosen = sorted(_pairs(lambda row: row["split"] == "test"))
    return [chosen[k] for k in np.random.default_rng(0).permutation(len(chosen))]


def tuning_clips() -> list[Pair]:
    """List the noisy files of `TUNING`, with their clean ones."""
    return _pairs(lambda row: (row["speaker"], row["noise"]) in TUNING)


def training_files() -> list[str]:
    """List the clean files that W is trained on."""
    held_out = {sentence for sentence, _ in TUNING}
    return sorted(
        row["path"]
        for row in _manifest()
        if row["split"] == "train" and row["snr_db"] == "clean" and row["speaker"] not in held_out
    )


def waves(pair: Pair) -> tuple[Floats, Floats]:
    """Read a noisy signal and its clean one."""
    (noisy, _), (clean, _) = (read(find("noizeus") / path) for path in pair)
    return noisy[:, 0], clean[:, 0]


@cache
def dictionary() -> Dictionary:
    """Return a dictionary of 100 single frames at alpha 1.2, trained once per process."""
    paths = [find("noizeus") / path for path in training_files()]
    return train(paths, rate=8000, rank=100, alpha=1.2, context=1, seed=0)


def _pairs(wanted: Callable[[dict[str, str]], bool]) -> list[Pair]:
    """List the noisy files at 5 dB that are wanted, with their clean ones."""
    rows = _manifest()
    clean = {row["speaker"]: row["path"] for row in rows if row["snr_db"] == "clean"}
    noisy = [row for row in rows if row["snr_db"] == SNR and wanted(row)]
    return [(row["path"], clean[row["speaker"]]) for row in noisy]


def _manifest() -> list[dict[str, str]]:
    return read_manifest(find("noizeus"), CORPORA["noizeus"].columns)


METHODS = ("SGLD", "PSGLD", "PSGLD, lagged", "HAMCMC", "HAMCMC without pairs")

TRIALS = 24

FAILED = -20.0
"""SDR in dB that stands for a chain that diverged."""


def settings(method: str, trial: int, seed: int) -> dict[str, Any]:
    """Draw the hyperparameters of a trial."""
    rng = generator(seed, METHODS.index(method), trial)

    def draw(least: float, most: float) -> float:
        return float(10 ** rng.uniform(np.log10(least), np.log10(most)))

    unit = draw(1, 1e6)
    rounded = {"unit": unit}
    if method.startswith("PSGLD"):
        rounded["step_size"] = draw(1e-5, 1e-1) * unit**0.6
        rounded["damping"] = draw(1e-1, 1e4) * unit**-0.6
    else:
        rounded["step_size"] = draw(1e-7, 1e-4) * unit**1.2
    if method == "HAMCMC":
        rounded["gamma"] = draw(1e-2, 1e3)
        rounded["step_size"] /= rounded["gamma"]
        rounded["trust"] = draw(1e2, 1e7) * unit**-1.2
    found: dict[str, Any] = {name: float(f"{value:.3g}") for name, value in rounded.items()}
    if method.startswith("HAMCMC"):
        found["memory"] = int(rng.choice((2, 3, 5, 8)))
    return found


def sampler_of(method: str, chosen: dict[str, Any]) -> Any:
    """Return a method's sampler with its `chosen` hyperparameters, except the unit."""
    rest = {name: value for name, value in chosen.items() if name != "unit"}
    if method == "SGLD":
        return SGLD(**rest)
    if method == "HAMCMC":
        return HAMCMC(**rest)
    if method == "HAMCMC without pairs":
        return Interleaved(**rest)
    return PSGLD(lagged=method == "PSGLD, lagged", **rest)


def jobs(full: bool, seed: int) -> list[Job]:
    """List one job for every method and trial."""
    return [
        {
            "method": method,
            "trial": trial,
            "settings": settings(method, trial, seed),
            "steps": SETTINGS.steps if full else 300,
            "seed": seed,
        }
        for method in METHODS
        for trial in range(TRIALS if full else 2)
    ]


def work(job: Job) -> Numbers:
    """Denoise and score the tuning clips with a trial's settings; `FAILED` if a chain diverges."""
    sampler = sampler_of(job["method"], job["settings"])
    model = dictionary()
    scores, seconds = [], 0.0
    for pair in tuning_clips():
        noisy, clean = waves(pair)
        spectrum = stft.forward(noisy, model.frame)
        begin = start(
            np.abs(spectrum) ** 2,
            model,
            job["seed"],
            unit=job["settings"]["unit"],
            blocks=SETTINGS.blocks,
        )
        try:
            with np.errstate(all="ignore"):
                gain, spent = mean_chain_gain(begin, sampler, job["steps"], job["seed"])
        except DivergenceError:
            return {"sdr": [FAILED], "seconds": seconds}
        seconds += spent
        scores.append(restored_sdr(spectrum, gain, model, clean))
    return {"sdr": scores, "seconds": seconds}


def table(records: list[JobRecord]) -> list[dict[str, Any]]:
    """Return a row for each trial, the best of each method first."""
    rows = []
    for method in METHODS:
        own = [record for record in records if record.job["method"] == method]
        own.sort(key=lambda record: -float(np.mean(record.numbers["sdr"])))
        for job, numbers in own:
            mean = float(np.mean(numbers["sdr"]))
            names = ("unit", "step_size", "damping", "gamma", "trust", "memory")
            rows.append(
                {
                    "method": method,
                    "SDR in dB": f"{mean:.2f}" if mean > FAILED else "diverged",
                    **{name: _short(job["settings"].get(name)) for name in names},
                    "seconds": round(numbers["seconds"], 2),
                }
            )
    return rows


def _short(value: float | None) -> str | None:
    return None if value is None else f"{value:g}"


def figure(records: list[JobRecord]) -> Any:
    """Draw the SDR of every trial, by method."""
    drawn, axes = blank_panels(7, 3)
    for place, method in enumerate(METHODS):
        values = [np.mean(r.numbers["sdr"]) for r in records if r.job["method"] == method]
        axes.plot(values, [place] * len(values), ".")
    axes.set_yticks(range(len(METHODS)), METHODS)
    axes.invert_yaxis()
    axes.set(xlabel="SDR in dB, mean over the tuning clips", xlim=(-5, None))
    return drawn
