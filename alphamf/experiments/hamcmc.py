"""To be written."""

from alphamf.experiments.base import Experiment

EXPERIMENTS: tuple[Experiment, ...] = ()
