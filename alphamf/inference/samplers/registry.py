"""The samplers, by name."""

from collections.abc import Callable
from functools import partial
from typing import Any

from alphamf.inference.samplers.hamcmc import HAMCMC, NaiveQN
from alphamf.inference.samplers.hmc import HMC, RHMC
from alphamf.inference.samplers.hmc_bfgs import HMCBFGS
from alphamf.inference.samplers.langevin import PSGLD, SGLD
from alphamf.inference.samplers.mass_em import MassEM
from alphamf.inference.samplers.nose import SGNPHMC, SGRNPHMC
from alphamf.inference.samplers.positive import EM, SGRLD
from alphamf.inference.samplers.quasi import QNHMC
from alphamf.inference.samplers.richardson import SGRRHMC, SGRRLD
from alphamf.inference.samplers.riemannian import RSGLD
from alphamf.inference.samplers.sghmc import SGHMC
from alphamf.inference.samplers.thermostat import SGNHT

SAMPLERS: dict[str, Callable[..., Any]] = {
    "sgld": SGLD,
    "psgld": PSGLD,
    "psgld-gamma": partial(PSGLD, correction=True),
    "rsgld": RSGLD,
    "rsgld-diagonal": partial(RSGLD, diagonal=True),
    "sgrld": SGRLD,
    "em": EM,
    "hamcmc": HAMCMC,
    "naive-qn": NaiveQN,
    "hmc": HMC,
    "hmc-em": partial(HMC, mass=MassEM()),
    "rhmc": RHMC,
    "hmc-bfgs": HMCBFGS,
    "qnhmc": QNHMC,
    "qnhmc-lbfgs": partial(QNHMC, memory=7),
    "sghmc": SGHMC,
    "sghmc-splitting": partial(SGHMC, integrator="splitting"),
    "sghmc-em": partial(SGHMC, mass=MassEM()),
    "sgnht": SGNHT,
    "sgnht-em": partial(SGNHT, mass=MassEM()),
    "sg-nphmc": SGNPHMC,
    "sg-nphmc-em": partial(SGNPHMC, mass=MassEM()),
    "sgr-nphmc": SGRNPHMC,
    "sgrrld": SGRRLD,
    "sgrrhmc": SGRRHMC,
}
"""Every sampler by name: call it with its hyperparameters, the step size first (EM has none).

"sgrld" and "em" move positive factors only, whose potential splits into positive parts.
"""
