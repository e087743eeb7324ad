"""The experiments of the paper on Richardson-Romberg extrapolation (Durmus et al., NIPS 2016)."""

from __future__ import annotations

from alphamf.experiments import richardson_factors, richardson_gaussian
from alphamf.experiments.base import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    richardson_gaussian.EXPERIMENT,
    richardson_factors.EXPERIMENT,
)
