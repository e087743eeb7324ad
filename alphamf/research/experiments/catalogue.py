"""The papers' experiments, by name and paper by paper."""

from __future__ import annotations

from alphamf.research.experiments.base import Experiment
from alphamf.research.experiments.hamcmc import distributed_mf, linear, linear_report, speech
from alphamf.research.experiments.mass_em import synthetic, tables, topics
from alphamf.research.experiments.quasi_newton import bpmf, mnist
from alphamf.research.experiments.quasi_newton import gaussian as quasi_newton_gaussian
from alphamf.research.experiments.richardson import factors
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
        (0.2, 12),
        speech.jobs,
        speech.work,
        speech.table,
        speech.figure,
        data=("noizeus",),
    ),
    *distributed_mf.EXPERIMENTS,
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
        (0.3, 9),
        topics.jobs,
        topics.work,
        topics.table,
        topics.figure,
        data=("newsgroups",),
    ),
)
"""Roychowdhury & Parthasarathy, "Adaptive Bayesian sampling with Monte Carlo EM", NIPS 2017.

Beside the paper's rows stand those of a mass learnt from positions. In equilibrium the momenta have
the covariance M whatever M is, and so teach nothing of the posterior: what the -EM rows learn is
chance, how far from equilibrium the burn-in was, and how much gradient noise heats each direction.
See `alphamf.inference.samplers.mass_em.MassEM`.
"""

QUASI_NEWTON = (quasi_newton_gaussian.EXPERIMENT, mnist.EXPERIMENT, bpmf.EXPERIMENT)
"""Fu, Luo & Zhang, "Quasi-Newton Hamiltonian Monte Carlo", UAI 2016."""

RICHARDSON = (richardson_gaussian.EXPERIMENT, factors.EXPERIMENT)
"""Durmus et al., "Stochastic Gradient Richardson-Romberg MCMC", NIPS 2016."""

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment for experiment in (*HAMCMC, *MASS_EM, *QUASI_NEWTON, *RICHARDSON)
}
"""Every experiment by name."""
