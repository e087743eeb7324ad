r"""``alpha-mf-speech-search``: tune hyperparameters, with equal trials per method.

Each trial draws all hyperparameters of its method at random, uniformly in their logarithms, and
runs as many steps as the table on the tuning clips, which are neither in W's training set nor in
the test. c is the unit of :math:`|X|^2` (`speech_chain`); ranges are stated for c =
1, and go along with it as the speech's gains do:

========================  =======================  ======================
hyperparameter            range                    unit
========================  =======================  ======================
c                         1 to 1e6
h of SGLD, h gamma        1e-7 to 1e-4             :math:`c^{1.2}`
gamma                     .01 to 1000              none
lambda of HAMCMC          1e2 to 1e7               :math:`c^{-1.2}`
M                         2, 3, 5 or 8
h of PSGLD                1e-5 to 1e-1             :math:`c^{0.6}`
lambda of PSGLD           1e-1 to 1e4              :math:`c^{-0.6}`
========================  =======================  ======================

PSGLD's alpha is the .9 that is printed.
"""

from typing import Any

import numpy as np

from alphamf.audio import stft
from alphamf.errors import DivergenceError
from alphamf.inference.random import generator
from alphamf.inference.samplers.hamcmc import HAMCMC
from alphamf.inference.samplers.langevin import PSGLD, SGLD
from alphamf.research.experiments.base import Job, JobRecord, Numbers, blank_panels
from alphamf.research.experiments.hamcmc import speech_chain
from alphamf.research.experiments.hamcmc.gibbs import Interleaved

METHODS = ("SGLD", "PSGLD", "PSGLD, lagged", "HAMCMC", "HAMCMC without pairs")

TRIALS = 24

FAILED = -20.0
"""SDR in dB of a chain that diverged."""


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
    """Return a method's sampler at its hyperparameters, the unit aside."""
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
            "steps": speech_chain.SETTINGS.steps if full else 300,
            "seed": seed,
        }
        for method in METHODS
        for trial in range(TRIALS if full else 2)
    ]


def work(job: Job) -> Numbers:
    """Denoise and score the tuning clips at the settings of a trial."""
    sampler = sampler_of(job["method"], job["settings"])
    model = speech_chain.dictionary()
    scores, seconds = [], 0.0
    for pair in speech_chain.tuning_clips():
        noisy, clean = speech_chain.waves(pair)
        spectrum = stft.forward(noisy, model.frame)
        begin = speech_chain.start(
            np.abs(spectrum) ** 2,
            model,
            job["seed"],
            unit=job["settings"]["unit"],
            blocks=speech_chain.SETTINGS.blocks,
        )
        try:
            with np.errstate(all="ignore"):
                gain, spent = speech_chain.mean_chain_gain(
                    begin, sampler, job["steps"], job["seed"]
                )
        except DivergenceError:
            return {"sdr": [FAILED], "seconds": seconds}
        seconds += spent
        scores.append(speech_chain.restored_sdr(spectrum, gain, model, clean))
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
