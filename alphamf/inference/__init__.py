"""Samplers, targets and the loop; from the rest of alphamf they import only errors and tools.

The public names below are loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alphamf.inference.chain import run as run
    from alphamf.inference.checks import Report as Report
    from alphamf.inference.checks import check as check
    from alphamf.inference.kernel import Kernel as Kernel
    from alphamf.inference.samplers.hamcmc import HAMCMC as HAMCMC
    from alphamf.inference.samplers.hmc import HMC as HMC
    from alphamf.inference.samplers.langevin import PSGLD as PSGLD
    from alphamf.inference.samplers.langevin import SGLD as SGLD
    from alphamf.inference.samplers.registry import SAMPLERS as SAMPLERS
    from alphamf.inference.samplers.sghmc import SGHMC as SGHMC
    from alphamf.inference.samplers.sghmc import SGNHT as SGNHT
    from alphamf.inference.sampling import Samples as Samples
    from alphamf.inference.sampling import sample as sample
    from alphamf.inference.targets.density import DensityTarget as DensityTarget
    from alphamf.inference.targets.density import NumPyDensity as NumPyDensity
    from alphamf.inference.targets.derived_density import JaxDensity as JaxDensity
    from alphamf.inference.targets.derived_density import TorchDensity as TorchDensity

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


__all__ = sorted(_HOME)


def __dir__() -> list[str]:
    return sorted([*__all__, "__doc__"])


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"alphamf.inference.{_HOME[name]}"), name)
