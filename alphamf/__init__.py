"""alphamf: speech denoising by alpha-stable matrix factorization, sampled by SG-MCMC.

The public names below are loaded on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alphamf.denoising import Denoised, denoise, denoise_stream
    from alphamf.dictionary import Dictionary, load
    from alphamf.errors import AlphaMFError
    from alphamf.presets import PRESETS, Settings
    from alphamf.samplers import SAMPLERS
    from alphamf.streaming import Segment, Stream
    from alphamf.training import train

__all__ = [
    "PRESETS",
    "SAMPLERS",
    "AlphaMFError",
    "Denoised",
    "Dictionary",
    "Segment",
    "Settings",
    "Stream",
    "denoise",
    "denoise_stream",
    "load",
    "train",
]

_HOME = {
    "PRESETS": "presets",
    "SAMPLERS": "samplers",
    "AlphaMFError": "errors",
    "Denoised": "denoising",
    "Dictionary": "dictionary",
    "Segment": "streaming",
    "Settings": "presets",
    "Stream": "streaming",
    "denoise": "denoising",
    "denoise_stream": "denoising",
    "load": "dictionary",
    "train": "training",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"alphamf.{_HOME[name]}"), name)
