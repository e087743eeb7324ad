"""The tables and figures of the Monte Carlo EM paper.

Beside the paper's rows stand those of a mass learnt from positions. In equilibrium the momenta have
the covariance M whatever M is, and so teach nothing of the posterior: what the -EM rows learn is
chance, how far from equilibrium the burn-in was, and how much gradient noise heats each direction.
See ``MassEM``.

References
----------
Roychowdhury & Parthasarathy, "Adaptive Bayesian sampling with Monte Carlo EM", NIPS 2017.
"""

from __future__ import annotations

from alphamf.experiments import mass_em_synthetic as synthetic
from alphamf.experiments import mass_em_tables as tables
from alphamf.experiments import mass_em_topics as topics
from alphamf.experiments.base import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
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
"""Table 1, tables 2 and 3, and table 4."""
