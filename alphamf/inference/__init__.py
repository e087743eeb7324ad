"""Samplers, targets and the loop that runs them; independent of the rest of alphamf.

The public names below are loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alphamf.inference.chain import run
    from alphamf.inference.checks import Report, check
    from alphamf.inference.kernel import Kernel
    from alphamf.inference.samplers.hamcmc import HAMCMC
    from alphamf.inference.samplers.hmc import HMC
    from alphamf.inference.samplers.langevin import PSGLD, SGLD
    from alphamf.inference.samplers.registry import SAMPLERS
    from alphamf.inference.samplers.sghmc import SGHMC, SGNHT
    from alphamf.inference.sampling import Samples, sample
    from alphamf.inference.targets.density import DensityTarget, NumPyDensity
    from alphamf.inference.targets.derived_density import JaxDensity, TorchDensity

__all__ = [
    "HAMCMC",
    "HMC",
    "PSGLD",
    "SAMPLERS",
    "SGHMC",
    "SGLD",
    "SGNHT",
    "DensityTarget",
    "JaxDensity",
    "Kernel",
    "NumPyDensity",
    "Report",
    "Samples",
    "TorchDensity",
    "check",
    "run",
    "sample",
]

_HOME = {
    "HAMCMC": "samplers.hamcmc",
    "HMC": "samplers.hmc",
    "PSGLD": "samplers.langevin",
    "SAMPLERS": "samplers.registry",
    "SGHMC": "samplers.sghmc",
    "SGLD": "samplers.langevin",
    "SGNHT": "samplers.sghmc",
    "DensityTarget": "targets.density",
    "JaxDensity": "targets.derived_density",
    "Kernel": "kernel",
    "NumPyDensity": "targets.density",
    "Report": "checks",
    "Samples": "sampling",
    "TorchDensity": "targets.derived_density",
    "check": "checks",
    "run": "chain",
    "sample": "sampling",
}


def __dir__() -> list[str]:
    return sorted([*__all__, "__doc__"])


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"alphamf.inference.{_HOME[name]}"), name)
