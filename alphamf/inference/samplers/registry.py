"""The samplers by name; each file is imported when its sampler is first created."""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def _sampler(place: str, **fixed: Any) -> Callable[..., Any]:
    """Return a function that creates a sampler.

    Parameters
    ----------
    place
        Its file in this folder and its class.
    fixed
        Hyperparameters that the name stands for; functions are called for theirs.
    """

    def make(*values: Any, **named: Any) -> Any:
        file, kind = place.split(".")
        ready = {name: value() if callable(value) else value for name, value in fixed.items()}
        build = getattr(import_module(f"alphamf.inference.samplers.{file}"), kind)
        return build(*values, **{**ready, **named})

    return make


_MASS = _sampler("mass_em.MassEM")

SAMPLERS: dict[str, Callable[..., Any]] = {
    "sgld": _sampler("langevin.SGLD"),
    "psgld": _sampler("langevin.PSGLD"),
    "psgld-lagged": _sampler("langevin.PSGLD", lagged=True),
    "psgld-gamma": _sampler("langevin.PSGLD", correction=True),
    "rsgld": _sampler("riemannian.RSGLD"),
    "rsgld-diagonal": _sampler("riemannian.RSGLD", diagonal=True),
    "sgrld": _sampler("sgrld.SGRLD"),
    "em": _sampler("sgrld.EM"),
    "hamcmc": _sampler("hamcmc.HAMCMC"),
    "hamcmc-positive": _sampler("hamcmc_positive.PositiveHAMCMC"),
    "hamcmc-momentum": _sampler("hamcmc_momentum.HAMCMCMomentum"),
    "hamcmc-richardson": _sampler("hamcmc_richardson.HAMCMCRichardson"),
    "naive-qn": _sampler("hamcmc.NaiveQN"),
    "hmc": _sampler("hmc.HMC"),
    "hmc-positive": _sampler("hmc_positive.PositiveHMC"),
    "hmc-em": _sampler("hmc.HMC", mass=_MASS),
    "rhmc": _sampler("hmc.RHMC"),
    "hmc-bfgs": _sampler("hmc_bfgs.HMCBFGS"),
    "qnhmc": _sampler("qnhmc.QNHMC"),
    "qnhmc-lbfgs": _sampler("qnhmc.QNHMC", memory=7),
    "sgqnhmc": _sampler("sgqnhmc.SGQNHMC"),
    "sghmc": _sampler("sghmc.SGHMC"),
    "sghmc-splitting": _sampler("sghmc.SGHMC", integrator="splitting"),
    "sghmc-em": _sampler("sghmc.SGHMC", mass=_MASS),
    "sgnht": _sampler("thermostat.SGNHT"),
    "sgnht-em": _sampler("thermostat.SGNHT", mass=_sampler("mass_em.MassEM", test="sgnht")),
    "sg-nphmc": _sampler("sgnphmc.SGNPHMC"),
    "sg-nphmc-em": _sampler("sgnphmc.SGNPHMC", mass=_MASS),
    "sgr-nphmc": _sampler("sgnphmc.SGRNPHMC"),
    "sgrrld": _sampler("richardson.SGRRLD"),
    "sgrrhmc": _sampler("richardson.SGRRHMC"),
}
"""Every sampler by name: call it with its hyperparameters, the step size first (EM has none).

"sgrld", "em", "hamcmc-positive" and "hmc-positive" move positive factors only, whose potential
splits into positive parts.
"""
