r"""Table 4 and figure 1 of the Monte Carlo EM paper: topics of 20 Newsgroups and of Reuters.

An iteration is one minibatch, as in the paper: `leaps` leaps on documents and topics that are drawn
once. Masses adapted to momenta are I for log E (see `TopicModel`) and diagonal otherwise; S_count,
the number of steps per adaptation, is fixed. All is as printed, but for the diagonal, since 100
momenta cannot determine a matrix of 100 rows. The mass is frozen after the burn-in.

The paper's 2000 words are not known. Here are 1995 lemmas, and the words of some documents differ,
so the methods can be compared with each other, but not with the printed column. The perplexity of a
uniform distribution over the words is their number.

The paper's second corpus, RCV1 with 804 414 documents, is not freely available. It is replaced by
Reuters-21578, 21 577 articles of 1987 from the same agency, with as many words (10 000) and the
same split by date, 60 to 40; its perplexities are not comparable with the printed ones either.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from alphamf.errors import DivergenceError
from alphamf.inference.chain import run
from alphamf.inference.metric import Diagonal, Metric
from alphamf.inference.random import generator
from alphamf.inference.samplers.masses import MassEMState
from alphamf.inference.samplers.sghmc import SGHMC
from alphamf.inference.targets.perplexity import Perplexity, split
from alphamf.inference.targets.topics import TopicModel
from alphamf.research import corpora
from alphamf.research.experiments.base import Job, JobRecord, Numbers, blank_panels, format_spread
from alphamf.research.experiments.mass_em import methods
from alphamf.tools.arrays import Array

SETTINGS: dict[str, dict[str, Any]] = {
    "SGHMC": {"step_size": 1e-3, "friction": 100.0},
    "SG-NPHMC": {"step_size": 1e-3, "friction": 100.0},
    "SGR-NPHMC": {"step_size": 0.1, "fixed_points": 1, "thermostat_friction": 0.01},
    "SGNHT": {"step_size": 1e-3, "diffusion": 100.0},
}
"""Settings chosen on training documents (docs/experiments/searches.md), not the paper's."""

FIXED = "theta at rest"
"""An additional row: Gibbs moves of the topics alone, with theta fixed at its start."""

METHODS = (
    FIXED,
    *(
        name
        for name in methods.METHODS
        if methods.base_method(name) in SETTINGS and not name.endswith(methods.BOTH)
    ),
)

SAMPLES = {"SG-NPHMC": 50}
"""Steps per adaptation (S_count) of samplers for which it is not 100, in the full form."""

LEAPS = 10


@dataclass(frozen=True)
class PartlyAdaptiveMass(methods.LearntMass):
    """An adaptive diagonal mass, except for log E, which has mass I."""

    rank: int  # Number of topics; theta is (log T, log E, log alpha, log c)

    def inverse(self, state: MassEMState) -> Metric:
        """Return M^-1, with ones for log E."""
        inverse = state.inverse.copy()
        inverse[..., self.rank : 2 * self.rank] = 1
        return Diagonal(inverse)


class OneBatch:
    """A target that draws one minibatch for every `leaps` leaps."""

    positive = False

    def __init__(self, target: TopicModel, leaps: int) -> None:
        self.target: TopicModel = target
        self.leaps: int = leaps
        self.calls: int = 0
        self.size: int = target.size
        self.latents: dict[str, Array] = target.latents
        self.potential: Any = None

    def start(self, rng: Any, chains: tuple[int, ...] = ()) -> Array:
        """Draw a start of the target, shape (*chains, D)."""
        return self.target.start(rng, chains)

    def draw(self, rng: Any, theta: Array) -> Any:
        """Return the potential of a minibatch, a new one after every `leaps` calls."""
        if self.calls % self.leaps == 0:
            self.potential = self.target.draw(rng, theta)
        self.calls += 1
        return self.potential


BURN_IN = {"newsgroups": 1500, "reuters": 2500}
"""Number of iterations that are dropped, in the full form."""


def reuters_jobs(full: bool, seed: int) -> list[Job]:
    """List one job per method and seed for the Reuters corpus."""
    burn_in = BURN_IN["reuters"] if full else 150
    return [{**job, "corpus": "reuters", "burn_in": burn_in} for job in jobs(full, seed)]


def jobs(full: bool, seed: int) -> list[Job]:
    """List one job per method and seed."""
    size = (
        {
            "documents": None,
            "rank": 100,
            "batch": 100,
            "burn_in": BURN_IN["newsgroups"],
            "keep": 1500,
            "thin": 100,
        }
        if full
        else {"documents": 2000, "rank": 50, "batch": 50, "burn_in": 150, "keep": 150, "thin": 30}
    )
    return [
        {
            "method": method,
            "settings": {**SETTINGS.get(methods.base_method(method), {}), "leaps": LEAPS},
            "samples": SAMPLES.get(methods.base_method(method), 100) // (1 if full else 5),
            **size,
            "sweeps": 2,
            "seed": seed + i,
        }
        for i in range(2)
        for method in METHODS
    ]


def work(job: Job) -> Numbers:
    """Run a method; return the running perplexity over the kept states, and the time.

    Numbers of a chain that diverged have the key ``diverged`` alone.
    """
    train, test = corpus(job["documents"], job.get("corpus", "newsgroups"))
    seed = job["seed"]
    observed, held_out = split(generator(seed, 0), test)
    target = TopicModel(train, job["rank"], batch=job["batch"], dtype=np.float32)
    record = Perplexity(
        observed,
        held_out,
        burn_in=job["burn_in"],
        thin=job["thin"],
        sweeps=job["sweeps"],
        seed=seed,
    )
    sampler = _sampler(job)
    start = target.start(generator(seed, 1))
    try:
        state, spent, curve, totals = _sample(job, target, sampler, start, record)
    except DivergenceError as error:
        return {"diverged": str(error)}
    return {
        "curve": curve,
        "perplexity": curve[-1][2],
        "milliseconds": 1e3 * spent / state.step,
        "condition": methods.condition(sampler, state),
        "total": float(np.mean(totals)),
    }


def _sample(
    job: Job, target: TopicModel, sampler: Any, start: Array, record: Perplexity
) -> tuple[Any, float, list[list[float]], list[float]]:
    """Return the last state, the CPU seconds, and a curve point and total weight per kept state."""
    spent = after = 0.0
    curve: list[list[float]] = []
    totals = []
    states = run(
        OneBatch(target, job["settings"]["leaps"]),
        sampler,
        steps=job["burn_in"] + job["keep"],
        seed=job["seed"],
        start=start,
    )
    begun = time.process_time()
    for state in states:
        spent += time.process_time() - begun
        record.add(state, target)
        past = state.step - job["burn_in"]
        if past == 0:
            after = spent
        elif past > 0 and past % job["thin"] == 0:
            curve.append([past, spent - after, record.perplexity])
            totals.append(float(target.unpack(state.theta).r.sum()))
        begun = time.process_time()
    return state, spent, curve, totals


def corpus(documents: int | None, name: str = "newsgroups") -> tuple[Any, Any]:
    """Return word counts of training texts (at most `documents`) and test texts, thinned alike."""
    from scipy.sparse import csr_array

    with np.load(corpora.find(name)) as file:
        parts = (file["data"].astype(np.int32), file["indices"], file["indptr"])
        counts = csr_array(parts, shape=tuple(file["shape"]))
        n = int(file["n_train"])
    train, test = counts[:n], counts[n:]
    if documents is None:
        return train, test
    return train[:: max(1, n // documents)][:documents], test[:: max(1, n // documents)]


def _sampler(job: Job) -> Any:
    method, settings = job["method"], dict(job["settings"])
    if method == FIXED:
        return SGHMC(step_size=1e-12, leaps=job["settings"]["leaps"])
    built = methods.sampler(
        method, settings, samples=job["samples"], freeze=job["burn_in"], dense=False, growth=np.inf
    )
    if method.endswith(methods.EM):
        settings["mass"] = PartlyAdaptiveMass(built.mass, job["rank"])
        return methods.KINDS[methods.base_method(method)](**settings)
    return built


PAPER = {
    "SGHMC": ("759", "47", "996"),
    "SGHMC-EM": ("738", "47", "972"),
    "SGNHT": ("757", "45", "979"),
    "SGNHT-EM": ("719", "45", "968"),
    "SGR-NPHMC": ("723", "410", "952"),
    "SG-NPHMC": ("714", "49", "958"),
    "SG-NPHMC-EM": ("712", "49", "947"),
}
"""Perplexity on 20 Newsgroups, milliseconds of an iteration, and perplexity on RCV1, the larger
Reuters corpus."""


def reuters_table(records: list[JobRecord]) -> list[dict[str, Any]]:
    """Return table 4 for Reuters; the paper's column is for RCV1."""
    rows = table(records)
    for row in rows:
        del row["paper ms"]
        row["paper"] = PAPER.get(row["method"], (None,))[-1]
    return [{("paper, RCV1" if k == "paper" else k): v for k, v in row.items()} for row in rows]


def table(records: list[JobRecord]) -> list[dict[str, Any]]:
    """Return one row per method, with the paper's numbers for 20 Newsgroups (table 4)."""
    found: dict[str, list[Numbers]] = {}
    for job, numbers in records:
        several = found.setdefault(job["method"], [])
        if "diverged" not in numbers:
            several.append(numbers)
    rows = []
    for method, several in found.items():
        paper = PAPER.get(method, (None, None, None))
        plain = found.get(methods.base_method(method), [])
        spent, before = ([n["milliseconds"] for n in each] for each in (several, plain))
        shapes = [n["condition"] for n in several if n["condition"] is not None]
        rows.append(
            {
                "method": method,
                "perplexity": format_spread([n["perplexity"] for n in several], 4) or "diverged",
                "paper": paper[0],
                "ms": format_spread(spent),
                "paper ms": paper[1],
                "ratio": None if several is plain else methods.ratio(spent, before),
                "condition of M": float(np.exp(np.log(shapes).mean())) if shapes else None,
                "total weight": format_spread([n["total"] for n in several]),
            }
        )
    return rows


def figure(records: list[JobRecord]) -> Any:
    """Draw figure 1: perplexity against iterations and against time, after the burn-in."""
    drawing, axes = blank_panels(10, 4.2, 1, 2, sharey=True)
    colours = {kind: f"C{i}" for i, kind in enumerate((*SETTINGS, FIXED))}
    for method in dict.fromkeys(job["method"] for job, _ in records):
        own = [n for job, n in records if job["method"] == method]
        curves = np.array([numbers["curve"] for numbers in own if "curve" in numbers])
        if not curves.size:
            continue
        steps, seconds, perplexity = curves.mean(0).T
        style = "--" if method.endswith(methods.EM) else "-"
        style = ":" if method.endswith(methods.POSITIONS) else style
        for axis, x in zip(axes, (steps, seconds), strict=True):
            axis.plot(
                x, perplexity, style, color=colours[methods.base_method(method)], label=method
            )
    axes[0].set_xlabel("iterations after the burn-in")
    axes[0].set_ylabel("test perplexity")
    axes[1].set_xlabel("seconds after the burn-in")
    axes[1].legend(fontsize="small")
    return drawing
