"""The samplers by name; each file is imported when its sampler is first created."""

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from importlib import import_module
from inspect import signature
from typing import Any


class _Registry(Mapping[str, Callable[..., Any]]):
    """Samplers by name, imported when one is first looked up."""

    def __init__(self, makers: dict[str, Callable[[], Callable[..., Any]]]) -> None:
        self._makers = makers

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return self._makers[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


def _sampler(place: str, **fixed: Any) -> Callable[[], Callable[..., Any]]:
    """Return a function that imports a sampler, and gives its class or what builds it.

    Parameters
    ----------
    place
        Its file in this folder and its class.
    fixed
        Hyperparameters that the name stands for; samplers of this form are built for theirs.
    """

    def look_up() -> Callable[..., Any]:
        file, kind = place.split(".")
        build: Callable[..., Any] = getattr(
            import_module(f"alphamf.inference.samplers.{file}"), kind
        )
        if not fixed:
            return build

        @wraps(build, updated=())
        def make(*values: Any, **named: Any) -> Any:
            ready = {key: value()() if callable(value) else value for key, value in fixed.items()}
            return build(*values, **{**ready, **named})

        shown = signature(build)
        make.__signature__ = shown.replace(  # type: ignore[attr-defined]
            parameters=[
                each.replace(default=fixed.get(key, each.default))
                if not callable(fixed.get(key))
                else each
                for key, each in shown.parameters.items()
            ]
        )
        return make

    return look_up


_MASS = _sampler("mass_em.MassEM")

SAMPLERS: Mapping[str, Callable[..., Any]] = _Registry(
    {
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
        "sghmc-baoab": _sampler("sghmc.SGHMC", integrator="baoab"),
        "sghmc-em": _sampler("sghmc.SGHMC", mass=_MASS),
        "sgnht": _sampler("thermostat.SGNHT"),
        "sgnht-em": _sampler("thermostat.SGNHT", mass=_sampler("mass_em.MassEM", test="sgnht")),
        "sg-nphmc": _sampler("sgnphmc.SGNPHMC"),
        "sg-nphmc-em": _sampler("sgnphmc.SGNPHMC", mass=_MASS),
        "sgr-nphmc": _sampler("sgnphmc.SGRNPHMC"),
        "sgrrld": _sampler("richardson.SGRRLD"),
        "sgrrhmc": _sampler("richardson.SGRRHMC"),
    }
)
"""Every sampler by name: a class, or a function with the class's signature, the step size first
(EM has none).

"sgrld", "em", "hamcmc-positive" and "hmc-positive" move positive factors only, whose potential
splits into positive parts.
"""
