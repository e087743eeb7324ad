r"""``alpha-mf-speech``: five samplers of alpha-MF, compared by the SDR of the denoised speech.

Simsekli et al. (ICML 2016), section 4.2: the 80 NOIZEUS signals of 10 test sentences in 8 noises at
5 dB; W of 100 single frames at alpha 1.2, trained on the clean speech of the other 20 sentences,
and 5 free noise spectra at alpha 1.89; a tenth of the rows a step, 2500 steps, the last 200
averaged. The printed steps :math:`(a / t)^{0.51}`, with the a of the paper's table 2, are ours
without a factor of two; PSGLD's damping goes with the mean gradient over the I J cells.

Not printed, and chosen here: the window (512 samples, hop 128, which makes I = 257); the units (a
power of mean one in each bin); a random start near zero, the same for every method; and Gamma
priors of shape one, the same for every method, whose gradients are bounded.

EM reads all rows, and makes a tenth of the steps. A Gibbs sweep costs about a hundred steps of the
others, so there are few of them: `SWEEPS`.
"""

from __future__ import annotations

import csv
import time
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from alphamf.audio import stft
from alphamf.audio.reader import read
from alphamf.denoising.posterior import sources
from alphamf.denoising.settings import PRESETS, kernel
from alphamf.evaluation.score import sdr
from alphamf.factorization.alpha_mf import AlphaMF
from alphamf.factorization.priors import Gamma
from alphamf.inference.chain import run
from alphamf.inference.random import START, Key, generator
from alphamf.inference.records import Mean
from alphamf.inference.samplers.hamcmc import HAMCMC
from alphamf.inference.samplers.langevin import PSGLD, SGLD
from alphamf.inference.schedule import Polynomial
from alphamf.learnt.dictionary import Dictionary
from alphamf.research.corpora import find
from alphamf.research.experiments.base import Job, Numbers
from alphamf.research.experiments.hamcmc.gibbs import Gibbs
from alphamf.tools.arrays import Floats
from alphamf.training.dictionary.api import train

SETTINGS = replace(PRESETS["paper"], warm_up=0, prior_speech=Gamma(1.0, 300.0))
"""The rate is from a search on three train signals: docs/log/research.md."""

SNR = "5"

SAMPLERS: dict[str, Any] = {
    "SGLD, printed": SGLD(Polynomial(1e-6)),
    "SGLD, tuned": SGLD(1e-6),
    "PSGLD, printed": PSGLD(Polynomial(2e-5), decay=0.9, damping=1e-3, scale=256 * 140),
    "PSGLD, tuned": PSGLD(3e-4, damping=1.0),
    "HAMCMC, printed": HAMCMC(Polynomial(1e-8), memory=5, gamma=0.01, trust=1000.0),
    "HAMCMC, tuned": HAMCMC(5e-6, memory=5, gamma=1.0, trust=1e4),
    "EM": kernel("em"),
}
"""Tuned settings are from a search on the same train signals."""

METHODS = ("noisy", "start", *SAMPLERS, "Gibbs")

SWEEPS = 40
"""Sweeps of the Gibbs sampler, of which the last third is averaged."""


def clips(full: bool) -> list[tuple[str, str]]:
    """List noisy files and their clean ones: all 80, or three of them."""
    rows = _manifest()
    clean = {row["speaker"]: row["path"] for row in rows if row["snr_db"] == "clean"}
    chosen = sorted(
        (row["path"], clean[row["speaker"]])
        for row in rows
        if row["split"] == "test" and row["snr_db"] == SNR
    )
    # Shuffled, so that any part of the list has different sentences and noises.
    order = np.random.default_rng(0).permutation(len(chosen))
    return [chosen[k] for k in order][: None if full else 3]


def _manifest() -> list[dict[str, str]]:
    with open(find("noizeus") / "MANIFEST.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@cache
def dictionary() -> Dictionary:
    """Train the speech spectra on the train sentences, once per process."""
    paths = sorted(
        find("noizeus") / row["path"]
        for row in _manifest()
        if row["split"] == "train" and row["snr_db"] == "clean"
    )
    return train(paths, rate=8000, rank=100, alpha=1.2, context=1, seed=0)


def jobs(full: bool, seed: int) -> list[Job]:
    """List one job for every method and signal."""
    return [
        {
            "method": method,
            "noisy": noisy,
            "clean": clean,
            "steps": SETTINGS.steps if full else 300,
            "sweeps": SWEEPS if full else 10,
            "seed": seed,
        }
        for noisy, clean in clips(full)
        for method in METHODS
    ]


def work(job: Job) -> Numbers:
    """Denoise and score one signal; the time is that of the sampling alone, on one core."""
    folder = find("noizeus")
    (noisy, _), (clean, _) = read(folder / job["noisy"]), read(folder / job["clean"])
    mixture, reference = noisy[:, 0], clean[:, 0]
    if job["method"] == "noisy":
        return {"sdr": sdr(reference, mixture), "seconds": 0.0}
    model = dictionary()
    spectrum = stft.forward(mixture, model.frame)
    gain, seconds = _gain(np.abs(spectrum) ** 2, model, job)
    restored = stft.inverse(spectrum * gain, model.frame, len(mixture))
    return {"sdr": sdr(reference, restored), "seconds": seconds}


def _gain(power: Floats, model: Dictionary, job: Job) -> tuple[Floats, float]:
    """Return the mean of the speech's gain over the last steps, and the seconds it took."""
    method, seed = job["method"], job["seed"]
    level = power.mean(axis=1, keepdims=True)
    level = np.maximum(level, 1e-6 * level.mean())
    blocks = SETTINGS.blocks if method in SAMPLERS and method != "EM" else 1
    parts = sources(model, SETTINGS, level)
    with np.errstate(all="ignore"):
        target = AlphaMF(power / level, parts, blocks=blocks)
        start = target.start(generator(seed, Key.CHAIN, START))
        if method == "start":
            return target.gain(start), 0.0
        begun = time.process_time()
        if method == "Gibbs":
            gain = _gibbs(target, start, job["sweeps"], seed)
            return gain, time.process_time() - begun
        steps = job["steps"] // (SETTINGS.blocks // blocks)
        record = Mean(
            lambda theta, target: target.gain(theta),
            burn_in=steps - min(SETTINGS.keep, steps // 3),
            thin=SETTINGS.thin,
        )
        for _ in run(target, SAMPLERS[method], steps=steps, seed=seed, start=start, record=record):
            pass
    return record.mean, time.process_time() - begun


def _gibbs(target: AlphaMF, start: Floats, sweeps: int, seed: int) -> Floats:
    rng = generator(seed, 0, 1)
    chain = Gibbs(target, rng, start)
    total: Floats = np.zeros_like(target.power)
    kept = max(1, sweeps // 3)
    for sweep in range(sweeps):
        chain.sweep(rng)
        if sweep >= sweeps - kept:
            total += chain.gain() / np.float32(kept)
    return total
