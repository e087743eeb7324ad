"""The papers' experiments by name, grouped by paper."""

from typing import Any

from alphamf.research.experiments.base import Experiment
from alphamf.research.experiments.hamcmc import (
    distributed_mf,
    linear,
    speech,
    speech_search,
)
from alphamf.research.experiments.mass_em import synthetic, topics
from alphamf.research.experiments.quasi_newton import bpmf, mnist
from alphamf.research.experiments.quasi_newton import gaussian as quasi_newton_gaussian
from alphamf.research.experiments.richardson import factors, rates
from alphamf.research.experiments.richardson import gaussian as richardson_gaussian


def _experiment(
    name: str, paper: str, minutes: tuple[float, float], module: Any, **more: Any
) -> Experiment:
    """Return an experiment; the functions that `more` does not name are a module's own."""
    names = [each for each in ("jobs", "work", "table", "figure") if each not in more]
    functions = {each: getattr(module, each) for each in names}
    return Experiment(name, paper, minutes, **functions, **more)


HAMCMC = (
    _experiment("linear-gaussian", "Simsekli et al., ICML 2016, figs. 1 and 2", (0.2, 3), linear),
    _experiment(
        "alpha-mf-speech",
        "Simsekli et al., ICML 2016, fig. 3",
        (0.2, 18),
        speech,
        data=("noizeus",),
    ),
    _experiment(
        "alpha-mf-speech-search",
        "Simsekli et al., ICML 2016, fig. 3: the hyperparameters of alpha-mf-speech",
        (0.1, 5),
        speech_search,
        data=("noizeus",),
    ),
    _experiment(
        "distributed-mf",
        "Simsekli et al., ICML 2016, fig. 5",
        (0.2, 7),
        distributed_mf,
        data=("ml-1m",),
        over_ranks=distributed_mf.run_over_ranks,
    ),
)

MASS_EM = (
    _experiment(
        "normal-1d",
        "Monte Carlo EM mass, table 1",
        (0.1, 1.5),
        synthetic,
        jobs=synthetic.normal_jobs,
    ),
    _experiment(
        "logistic-2d",
        "Monte Carlo EM mass, tables 2 and 3",
        (0.2, 3),
        synthetic,
        jobs=synthetic.logistic_jobs,
        data=("australian-credit", "heart"),
    ),
    _experiment(
        "topics",
        "Monte Carlo EM mass, table 4 and figure 1",
        (0.4, 9),
        topics,
        data=("newsgroups",),
    ),
    _experiment(
        "topics-reuters",
        "Monte Carlo EM mass, table 4 (Reuters-21578 for RCV1)",
        (0.7, 18),
        topics,
        jobs=topics.reuters_jobs,
        table=topics.reuters_table,
        data=("reuters",),
    ),
)

QUASI_NEWTON = (
    _experiment(
        "gaussian-qn",
        "Fu et al., QNHMC (UAI 2016), table 1 and figure 1",
        (0.1, 2.5),
        quasi_newton_gaussian,
    ),
    _experiment(
        "mnist-7v9", "Fu et al., QNHMC (UAI 2016), table 2", (0.1, 3), mnist, data=("mnist-7v9",)
    ),
    _experiment("bpmf", "Fu et al., QNHMC (UAI 2016), table 3", (0.1, 4), bpmf, data=("ml-1m",)),
)

RICHARDSON = (
    _experiment(
        "richardson",
        "Durmus et al., Richardson-Romberg (NIPS 2016), figures 1-4",
        (0.1, 2.5),
        richardson_gaussian,
    ),
    _experiment(
        "richardson-rate",
        "Durmus et al., Richardson-Romberg (NIPS 2016), figure 3",
        (0.1, 60),
        rates,
    ),
    _experiment(
        "richardson-mf",
        "Durmus et al., Richardson-Romberg (NIPS 2016), figure 5",
        (0.1, 4),
        factors,
        data=("ml-1m",),
    ),
)

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment for experiment in (*HAMCMC, *MASS_EM, *QUASI_NEWTON, *RICHARDSON)
}
"""Every experiment by name."""
