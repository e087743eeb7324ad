r"""``alpha-mf-speech``: samplers of alpha-MF, compared by the SDR of the denoised speech.

Simsekli et al. (ICML 2016), section 4.2: NOIZEUS, test sentences in 8 noises at 5 dB; W of 100
single frames at alpha 1.2, trained on clean speech of other sentences, and 5 free noise spectra at
alpha 1.89; a tenth of the rows a step, 2500 steps, the last 200 averaged. The printed steps
:math:`(a / t)^{0.51}`, with the a of the paper's table 2, are used here without a factor of two;
PSGLD's damping is relative to the mean gradient over the I J cells.

Not printed, and chosen here: the window (512 samples, hop 128, which makes I = 257); and, the same
for every method, a random start near zero and Gamma priors of H, of shape one for speech and 30 for
noise. The unit of :math:`|X|^2` is not printed either, so the printed steps are run in two units:
a mean power of one in each bin, and of 1e4.

*Tuned* rows have the best of equally many trials for each method (``alpha-mf-speech-search``). They
are run for 2500 steps, and for as many as take HAMCMC's CPU time. EM and the Gibbs samplers read
all rows, and make 250 passes over the data, as 2500 steps on a tenth do. A Gibbs sweep takes a
tenth of a second, so Gibbs samplers are run on the first `SWEPT` clips only, and with 2500 sweeps
on the first `SWEPT_LONG`.
"""

from typing import Any, NamedTuple

import numpy as np

from alphamf.audio import stft
from alphamf.denoising.settings import kernel
from alphamf.inference.samplers.hamcmc import HAMCMC
from alphamf.inference.samplers.langevin import PSGLD, SGLD
from alphamf.inference.schedule import Polynomial
from alphamf.research.experiments.base import Job, JobRecord, Numbers, blank_panels, mean_and_error
from alphamf.research.experiments.hamcmc import speech_search
from alphamf.research.experiments.hamcmc.speech_search import sampler_of

CLIPS = 80
"""Number of test clips in the full form; Gibbs samplers use fewer."""

SWEPT, SWEPT_LONG = 6, 1
"""Number of clips for Gibbs samplers, and for those with 2500 sweeps, in the full form."""

CELLS = 256 * 140
"""I J of the paper, the number of cells over which PSGLD's gradient is averaged."""

PRINTED: dict[str, Any] = {
    "SGLD": SGLD(Polynomial(1e-6)),
    "PSGLD": PSGLD(Polynomial(2e-5), decay=0.9, damping=1e-3, scale=CELLS),
    "PSGLD, lagged": PSGLD(Polynomial(2e-5), decay=0.9, damping=1e-3, scale=CELLS, lagged=True),
    "HAMCMC": HAMCMC(Polynomial(1e-8), memory=5, gamma=0.01, trust=1000.0),
    "HAMCMC, gamma 100": HAMCMC(Polynomial(1e-8), memory=5, gamma=100.0, trust=1000.0),
}
"""Samplers with the settings of the paper's table 2; the last has 1 over the printed gamma."""

TUNED: dict[str, dict[str, Any]] = {
    "SGLD": {"unit": 440.0, "step_size": 0.000883},
    "PSGLD": {"unit": 600.0, "step_size": 0.00527, "damping": 0.0873},
    "PSGLD, lagged": {"unit": 689000.0, "step_size": 0.162, "damping": 0.175},
    "HAMCMC": {
        "unit": 19300.0,
        "step_size": 0.0343,
        "gamma": 15.3,
        "trust": 70.0,
        "memory": 3,
    },
    "HAMCMC without pairs": {"unit": 108.0, "step_size": 0.000184, "memory": 2},
}
"""Hyperparameters of each method's best trial (docs/benchmarks/alpha-mf-speech-search.csv)."""

SAME_TIME = {
    "SGLD": 6200,
    "PSGLD": 4500,
    "PSGLD, lagged": 4700,
    "HAMCMC without pairs": 6000,
}
"""Steps that take as long as HAMCMC's 2500, by the search's CPU times."""


class SpeechMethod(NamedTuple):
    """A row: sampler (None: Gibbs or no sampler), unit of |X|^2, row blocks, steps and clips."""

    sampler: Any
    unit: float = 1.0
    blocks: int = speech_search.SETTINGS.blocks
    steps: int = speech_search.SETTINGS.steps
    clips: int = CLIPS


PASSES = speech_search.SETTINGS.steps // speech_search.SETTINGS.blocks
"""Number of passes over the data that 2500 steps make."""

METHODS: dict[str, SpeechMethod] = {
    "noisy": SpeechMethod(None, steps=0),
    "start": SpeechMethod(None, steps=0),
    **{f"{name}, printed": SpeechMethod(sampler) for name, sampler in PRINTED.items()},
    **{f"{name}, printed, unit 1e4": SpeechMethod(s, unit=1e4) for name, s in PRINTED.items()},
    **{
        f"{name}, tuned": SpeechMethod(sampler_of(name, best), best["unit"])
        for name, best in TUNED.items()
    },
    **{
        f"{name}, tuned, HAMCMC's time": SpeechMethod(
            sampler_of(name, TUNED[name]), TUNED[name]["unit"], steps=steps
        )
        for name, steps in SAME_TIME.items()
    },
    "EM": SpeechMethod(kernel("em"), blocks=1, steps=PASSES),
    "Gibbs": SpeechMethod(None, blocks=1, steps=PASSES, clips=SWEPT),
    "Gibbs, partially collapsed": SpeechMethod(None, blocks=1, steps=PASSES, clips=SWEPT),
    "Gibbs, 2500 sweeps": SpeechMethod(None, blocks=1, clips=SWEPT_LONG),
    "Gibbs, partially collapsed, 2500 sweeps": SpeechMethod(None, blocks=1, clips=SWEPT_LONG),
}


def jobs(full: bool, seed: int) -> list[Job]:
    """List one job for every method and clip."""
    clips = speech_search.test_clips()
    return [
        {
            "method": name,
            "noisy": noisy,
            "clean": clean,
            "steps": method.steps if full else method.steps // 50,
            "seed": seed,
        }
        for name, method in METHODS.items()
        for noisy, clean in clips[: method.clips if full else 2]
    ]


def work(job: Job) -> Numbers:
    """Denoise and score one clip; the seconds are the CPU time of the sampling alone."""
    name, seed, steps = job["method"], job["seed"], job["steps"]
    method = METHODS[name]
    noisy, clean = speech_search.waves((job["noisy"], job["clean"]))
    model = speech_search.dictionary()
    spectrum = stft.forward(noisy, model.frame)
    gain, seconds = np.ones(spectrum.shape, np.float32), 0.0
    if name != "noisy":
        with np.errstate(all="ignore"):
            begin = speech_search.start(
                np.abs(spectrum) ** 2, model, seed, unit=method.unit, blocks=method.blocks
            )
            if method.sampler is not None:
                gain, seconds = speech_search.mean_chain_gain(begin, method.sampler, steps, seed)
            elif name == "start":
                gain = begin.target.gain(begin.theta)
            else:
                collapsed = "collapsed" in name
                gain, seconds = speech_search.mean_gibbs_gain(
                    begin, steps, seed, collapsed=collapsed
                )
    return {
        "sdr": speech_search.restored_sdr(spectrum, gain, model, clean),
        "seconds": seconds,
    }


ORDER = {
    "SGLD": "lowest",
    "PSGLD, lagged": "slightly above SGLD",
    "HAMCMC": "highest",
    "Gibbs, partially collapsed": "below HAMCMC",
}
"""Order of the methods in fig. 3, which has no numbers."""


def table(records: list[JobRecord]) -> list[dict[str, Any]]:
    """Return a row per method: mean SDR ± standard error over the clips, and costs."""
    rows = []
    for name, method in METHODS.items():
        found = [record for record in records if record.job["method"] == name]
        seconds = float(np.mean([r.numbers["seconds"] for r in found]))
        part = "all rows" if method.blocks == 1 else f"1/{method.blocks} of the rows"
        rows.append(
            {
                "method": name,
                "SDR in dB": mean_and_error([r.numbers["sdr"] for r in found], 3),
                "improvement over the input": mean_and_error(_over(records, found), 3),
                "steps": f"{found[0].job['steps']} on {part}" if method.steps else None,
                "seconds per clip": f"{seconds:.2f}",
                "clips": len(found),
                "paper": ORDER.get(_method(name)),
            }
        )
    return rows


def _method(row: str) -> str:
    """Return the name of the method in a row, without ``printed``, ``tuned`` or its sweeps."""
    for added in (", printed", ", tuned", ", 2500 sweeps"):
        row = row.partition(added)[0]
    return row


def _over(records: list[JobRecord], found: list[JobRecord]) -> list[float]:
    noisy = {r.job["noisy"]: r.numbers["sdr"] for r in records if r.job["method"] == "noisy"}
    return [r.numbers["sdr"] - noisy[r.job["noisy"]] for r in found]


def figure(records: list[JobRecord]) -> Any:
    """Draw fig. 3: each method's gain in SDR over the input."""
    drawn, axes = blank_panels(8, 6)
    for place, name in enumerate(METHODS):
        values = _over(records, [r for r in records if r.job["method"] == name])
        error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0
        axes.barh(place, np.mean(values), xerr=error, color=f"C{place % 10}")
    axes.axvline(0, color="grey", linewidth=0.8)
    axes.set(xlabel="gain in SDR over the input, dB (mean and standard error over clips)")
    axes.set_yticks(range(len(METHODS)), METHODS)
    axes.invert_yaxis()
    return drawn
