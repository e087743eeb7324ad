"""Simsekli et al., "Stochastic Quasi-Newton Langevin Monte Carlo" (ICML 2016): HAMCMC."""

from __future__ import annotations

from alphamf.experiments import hamcmc_linear, hamcmc_linear_report, hamcmc_speech
from alphamf.experiments.base import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        "linear-gaussian",
        "Simsekli et al., ICML 2016, figs. 1 and 2",
        (0.2, 3),
        hamcmc_linear.jobs,
        hamcmc_linear.work,
        hamcmc_linear_report.table,
        hamcmc_linear_report.figure,
    ),
    Experiment(
        "alpha-mf-speech",
        "Simsekli et al., ICML 2016, fig. 3",
        (0.2, 12),
        hamcmc_speech.jobs,
        hamcmc_speech.work,
        hamcmc_speech.table,
        hamcmc_speech.figure,
        data=("noizeus",),
    ),
)
