"""The papers' experiments, by name."""

from __future__ import annotations

from alphamf.experiments import distributed_mf, hamcmc, mass_em, quasi_newton, richardson
from alphamf.experiments.base import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for paper in (hamcmc, distributed_mf, mass_em, quasi_newton, richardson)
    for experiment in paper.EXPERIMENTS
}
"""Every experiment by name, paper by paper."""
