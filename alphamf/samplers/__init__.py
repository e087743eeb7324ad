"""The samplers, by name."""

from typing import Any

from alphamf.samplers.factors import EM, SGRLD
from alphamf.samplers.hamcmc import HAMCMC, NaiveQN
from alphamf.samplers.langevin import PSGLD, SGLD

__all__ = ["EM", "HAMCMC", "PSGLD", "SAMPLERS", "SGLD", "SGRLD", "NaiveQN"]

SAMPLERS: dict[str, type[Any]] = {
    "sgld": SGLD,
    "psgld": PSGLD,
    "sgrld": SGRLD,
    "hamcmc": HAMCMC,
    "em": EM,
}
