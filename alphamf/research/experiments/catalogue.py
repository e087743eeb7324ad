"""The papers' experiments by name, grouped by paper."""

from __future__ import annotations

from alphamf.research.experiments.base import Experiment
from alphamf.research.experiments.hamcmc import (
    distributed_mf,
    distributed_report,
    linear,
    linear_report,
    speech,
    speech_report,
    speech_search,
)
from alphamf.research.experiments.mass_em import synthetic, tables, topics, topics_report
from alphamf.research.experiments.quasi_newton import bpmf, mnist
from alphamf.research.experiments.quasi_newton import gaussian as quasi_newton_gaussian
from alphamf.research.experiments.richardson import factors, gaussian_report, rates
from alphamf.research.experiments.richardson import gaussian as richardson_gaussian

HAMCMC = (
    Experiment(
        "linear-gaussian",
        "Simsekli et al., ICML 2016, figs. 1 and 2",
        (0.2, 3),
        linear.jobs,
        linear.work,
        linear_report.table,
        linear_report.figure,
    ),
    Experiment(
        "alpha-mf-speech",
        "Simsekli et al., ICML 2016, fig. 3",
        (0.2, 18),
        speech.jobs,
        speech.work,
        speech_report.table,
        speech_report.figure,
        data=("noizeus",),
    ),
    Experiment(
        "alpha-mf-speech-search",
        "Simsekli et al., ICML 2016, fig. 3: the hyperparameters of alpha-mf-speech",
        (0.1, 5),
        speech_search.jobs,
        speech_search.work,
        speech_search.table,
        speech_search.figure,
        data=("noizeus",),
    ),
    Experiment(
        "distributed-mf",
        "Simsekli et al., ICML 2016, fig. 5",
        (0.2, 7),
        distributed_mf.jobs,
        distributed_mf.work,
        distributed_report.table,
        distributed_report.figure,
        data=("ml-1m",),
        over_ranks=distributed_mf.run_over_ranks,
    ),
)
"""Simsekli et al., "Stochastic Quasi-Newton Langevin Monte Carlo", ICML 2016."""

MASS_EM = (
    Experiment(
        "normal-1d",
        "Monte Carlo EM mass, table 1",
        (0.1, 1.5),
        synthetic.normal_jobs,
        synthetic.work,
        tables.normal_table,
        tables.normal_figure,
    ),
    Experiment(
        "logistic-2d",
        "Monte Carlo EM mass, tables 2 and 3",
        (0.2, 3),
        synthetic.logistic_jobs,
        synthetic.work,
        tables.logistic_table,
        tables.logistic_figure,
        data=("australian-credit", "heart"),
    ),
    Experiment(
        "topics",
        "Monte Carlo EM mass, table 4 and figure 1",
        (0.4, 9),
        topics.jobs,
        topics.work,
        topics_report.table,
        topics_report.figure,
        data=("newsgroups",),
    ),
    Experiment(
        "topics-reuters",
        "Monte Carlo EM mass, table 4 (Reuters-21578 for RCV1)",
        (0.7, 18),
        topics.reuters_jobs,
        topics.work,
        topics_report.reuters_table,
        topics_report.figure,
        data=("reuters",),
    ),
)
"""Roychowdhury & Parthasarathy, "Adaptive Bayesian sampling with Monte Carlo EM", NIPS 2017.

There are additional rows for a mass adapted to positions. In equilibrium the momenta have the
covariance M whatever M is, and contain no information on the posterior: see
`alphamf.inference.samplers.mass_em.MassEM`.
"""

QUASI_NEWTON = (
    Experiment(
        "gaussian-qn",
        "Fu et al., QNHMC (UAI 2016), table 1 and figure 1",
        (0.1, 2.5),
        quasi_newton_gaussian.jobs,
        quasi_newton_gaussian.work,
        quasi_newton_gaussian.table,
        quasi_newton_gaussian.figure,
    ),
    Experiment(
        "mnist-7v9",
        "Fu et al., QNHMC (UAI 2016), table 2",
        (0.1, 3),
        mnist.jobs,
        mnist.work,
        mnist.table,
        mnist.figure,
        data=("mnist-7v9",),
    ),
    Experiment(
        "bpmf",
        "Fu et al., QNHMC (UAI 2016), table 3",
        (0.1, 4),
        bpmf.jobs,
        bpmf.work,
        bpmf.table,
        bpmf.figure,
        data=("ml-1m",),
    ),
)
"""Fu, Luo & Zhang, "Quasi-Newton Hamiltonian Monte Carlo", UAI 2016."""

RICHARDSON = (
    Experiment(
        "richardson",
        "Durmus et al., Richardson-Romberg (NIPS 2016), figures 1-4",
        (0.1, 2.5),
        richardson_gaussian.jobs,
        richardson_gaussian.work,
        gaussian_report.table,
        gaussian_report.figure,
    ),
    Experiment(
        "richardson-rate",
        "Durmus et al., Richardson-Romberg (NIPS 2016), figure 3",
        (0.1, 60),
        rates.jobs,
        rates.work,
        rates.table,
        rates.figure,
    ),
    Experiment(
        "richardson-mf",
        "Durmus et al., Richardson-Romberg (NIPS 2016), figure 5",
        (0.1, 4),
        factors.jobs,
        factors.work,
        factors.table,
        factors.figure,
        data=("ml-1m",),
    ),
)
"""Durmus et al., "Stochastic Gradient Richardson-Romberg MCMC", NIPS 2016."""

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment for experiment in (*HAMCMC, *MASS_EM, *QUASI_NEWTON, *RICHARDSON)
}
"""Every experiment by name."""
