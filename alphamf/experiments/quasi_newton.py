"""The experiments of the paper on QNHMC (Fu, Luo & Zhang, UAI 2016)."""

from __future__ import annotations

from alphamf.experiments import quasi_newton_bpmf, quasi_newton_gaussian, quasi_newton_mnist
from alphamf.experiments.base import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    quasi_newton_gaussian.EXPERIMENT,
    quasi_newton_mnist.EXPERIMENT,
    quasi_newton_bpmf.EXPERIMENT,
)
