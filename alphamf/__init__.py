"""alphamf: speech denoising by alpha-stable matrix factorization and stochastic-gradient MCMC.

The public names below are loaded on first use, so that importing the package is fast.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alphamf.denoising.api import Denoised, denoise, denoise_stream
    from alphamf.denoising.posterior import Agreement
    from alphamf.denoising.segments import Segment
    from alphamf.denoising.settings import PRESETS, Settings
    from alphamf.denoising.stream import Stream
    from alphamf.denoising.uncertainty import SpeechRange, speech_ranges
    from alphamf.denoising.weights import Weights
    from alphamf.errors import AlphaMFError
    from alphamf.inference.samplers.registry import SAMPLERS
    from alphamf.learnt.dictionary import Dictionary, load
    from alphamf.separation.estimator import AlphaMF
    from alphamf.separation.separate import Separated, separate
    from alphamf.training.dictionary.api import train

    __version__: str

__all__ = [
    "PRESETS", "SAMPLERS", "Agreement", "AlphaMF", "AlphaMFError", "Denoised", "Dictionary",
    "Segment", "Separated", "Settings", "SpeechRange", "Stream", "Weights", "denoise",
    "denoise_stream", "load", "separate", "speech_ranges", "train",
]  # fmt: skip

_HOME = {
    name: home
    for home, names in {
        "denoising.settings": "PRESETS Settings",
        "inference.samplers.registry": "SAMPLERS",
        "denoising.posterior": "Agreement",
        "separation.estimator": "AlphaMF",
        "errors": "AlphaMFError",
        "denoising.api": "Denoised denoise denoise_stream",
        "learnt.dictionary": "Dictionary load",
        "denoising.segments": "Segment",
        "separation.separate": "Separated separate",
        "denoising.stream": "Stream",
        "denoising.uncertainty": "SpeechRange speech_ranges",
        "denoising.weights": "Weights",
        "training.dictionary.api": "train",
    }.items()
    for name in names.split()
}


if os.path.isdir(os.path.join(__path__[0], os.pardir, "cli")):  # in the clone
    __path__ = import_module(".tools.clone", __name__).package_path(__path__[0])


def __dir__() -> list[str]:
    return sorted([*__all__, "__doc__", "__version__"])


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("alphamf")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"alphamf.{_HOME[name]}"), name)
