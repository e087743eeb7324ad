"""The samplers by name; each file is imported when its sampler is first looked up."""

from collections import UserDict
from collections.abc import Callable, MutableMapping
from functools import wraps
from importlib import import_module
from inspect import signature
from typing import Any


class _Deferred:
    """A class, such as a sampler, that is imported when it is first looked up."""

    def __init__(self, place: str, **fixed: Any) -> None:
        self.place, self.fixed = place, fixed

    def load(self) -> Callable[..., Any]:
        """Return the class; if there are `fixed` values, a function that has them as defaults."""
        file, kind = self.place.split(".")
        build = getattr(import_module(f"alphamf.inference.samplers.{file}"), kind)
        if not self.fixed:
            return build

        @wraps(build, updated=())
        def make(*values: Any, **named: Any) -> Any:
            return build(*values, **{**{key: _made(each) for key, each in fixed}, **named})

        fixed, shown = self.fixed.items(), signature(build)
        known = {key: each for key, each in fixed if not isinstance(each, _Deferred)}
        make.__signature__ = shown.replace(  # type: ignore[attr-defined]
            parameters=[
                each.replace(default=known.get(key, each.default))
                for key, each in shown.parameters.items()
            ]
        )
        return make


def _made(value: Any) -> Any:
    return value.load()() if isinstance(value, _Deferred) else value


class _Registry(UserDict[str, Any]):
    """A dict whose deferred values are loaded when they are looked up."""

    def __getitem__(self, name: str) -> Any:
        value = super().__getitem__(name)
        return value.load() if isinstance(value, _Deferred) else value


_MASS = _Deferred("masses.MassEM")

SAMPLERS: MutableMapping[str, Callable[..., Any]] = _Registry(
    {
        "sgld": _Deferred("langevin.SGLD"),
        "psgld": _Deferred("langevin.PSGLD"),
        "psgld-lagged": _Deferred("langevin.PSGLD", lagged=True),
        "psgld-gamma": _Deferred("langevin.PSGLD", correction=True),
        "rsgld": _Deferred("langevin.RSGLD"),
        "rsgld-diagonal": _Deferred("langevin.RSGLD", diagonal=True),
        "sgrld": _Deferred("sgrld.SGRLD"),
        "em": _Deferred("sgrld.EM"),
        "hamcmc": _Deferred("hamcmc.HAMCMC"),
        "hamcmc-positive": _Deferred("positive.PositiveHAMCMC"),
        "naive-qn": _Deferred("hamcmc.NaiveQN"),
        "hmc": _Deferred("hmc.HMC"),
        "hmc-positive": _Deferred("positive.PositiveHMC"),
        "hmc-em": _Deferred("hmc.HMC", mass=_MASS),
        "rhmc": _Deferred("hmc.RHMC"),
        "hmc-bfgs": _Deferred("hmc.HMCBFGS"),
        "qnhmc": _Deferred("qnhmc.QNHMC"),
        "qnhmc-lbfgs": _Deferred("qnhmc.QNHMC", memory=7),
        "sghmc": _Deferred("sghmc.SGHMC"),
        "sghmc-splitting": _Deferred("sghmc.SGHMC", integrator="splitting"),
        "sghmc-baoab": _Deferred("sghmc.SGHMC", integrator="baoab"),
        "sghmc-em": _Deferred("sghmc.SGHMC", mass=_MASS),
        "sgnht": _Deferred("sghmc.SGNHT"),
        "sgnht-em": _Deferred("sghmc.SGNHT", mass=_Deferred("masses.MassEM", test="sgnht")),
        "sg-nphmc": _Deferred("sgnphmc.SGNPHMC"),
        "sg-nphmc-em": _Deferred("sgnphmc.SGNPHMC", mass=_MASS),
        "sg-nphmc-em-q": _Deferred("sgnphmc.SGNPHMC", mass=_MASS, bath=_MASS),
        "sgr-nphmc": _Deferred("sgnphmc.SGRNPHMC"),
        "sgrrld": _Deferred("richardson.SGRRLD"),
        "sgrrhmc": _Deferred("richardson.SGRRHMC"),
        "sgrrmld": _Deferred("richardson.SGRRMLD"),
        "fla": _Deferred("fractional.FLA"),
        "fuld": _Deferred("fractional.FULD"),
        "resgld": _Deferred("replicas.ReplicaExchange"),
    }
)
"""Every sampler by name: a class, or a function with the class's signature. The first argument is
the step size, which EM does not have.

"sgrld", "em", "hamcmc-positive" and "hmc-positive" move positive factors only, and only if the
gradient splits into two positive parts.
"""
