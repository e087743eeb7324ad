"""The samplers, by name."""

from typing import Any

from alphamf.samplers.factors import EM, FactorSGRLD
from alphamf.samplers.hamcmc import HAMCMC, NaiveQN
from alphamf.samplers.langevin import PSGLD, SGLD

__all__ = ["EM", "HAMCMC", "PSGLD", "SAMPLERS", "SGLD", "FactorSGRLD", "NaiveQN"]

SAMPLERS: dict[str, type[Any]] = {
    "sgld": SGLD,
    "psgld": PSGLD,
    "sgrld-factors": FactorSGRLD,
    "hamcmc": HAMCMC,
    "em": EM,
}
