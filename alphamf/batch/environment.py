"""The environment that determines the exact bits of a result: processor, code paths, libraries."""

from __future__ import annotations

import platform
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from alphamf.batch.request import Request
from alphamf.denoising.weights import NETWORKS, Weights
from alphamf.factorization import compiled
from alphamf.learnt import compiled as layers
from alphamf.tools.extras import installed_version

PACKAGES = "numpy", "scipy", "soxr", "soundfile"
"""Packages whose computations affect the samples."""


def about_run(weights: Weights, request: Request) -> dict[str, Any]:
    """Return models, settings and environment of a run, as a result contains them."""
    networks = {name: getattr(weights, name) for name in NETWORKS}
    return {
        "version": version("alphamf"),
        "model": weights.dictionary.name,
        "model_sha256": weights.dictionary.sha256,
        **{name: network and network.name for name, network in networks.items()},
        **{f"{name}_sha256": network and network.sha256 for name, network in networks.items()},
        "preset": request.preset,
        "seed": request.options.seed,
        "device": request.options.device,
        "settings": asdict(request.options.settings),
        "environment": environment(),
    }


@cache
def environment() -> dict[str, Any]:
    """Return the processor, the compiled loops, the BLAS libraries, and versions.

    It can be printed as JSON. Equal inputs, settings and environments give equal bits.
    """
    import numpy as np
    import soundfile
    from threadpoolctl import threadpool_info

    extensions = np.show_config("dicts")["SIMD Extensions"]
    libraries = [library for library in threadpool_info() if library["user_api"] == "blas"]
    return {
        "cpu": _cpu(),
        "loops": compiled.variant(),
        "networks": layers.variant(),
        "numpy_features": [*extensions.get("baseline", ()), *extensions.get("found", ())],
        "blas": [
            {
                "library": library["internal_api"],
                "version": library["version"],
                "core": library.get("architecture"),
                "threads": library["num_threads"],
            }
            for library in libraries
        ],
        "python": platform.python_version(),
        "libc": " ".join(platform.libc_ver()).strip() or None,
        "libsndfile": soundfile.__libsndfile_version__,
        "packages": {name: installed_version(name) for name in PACKAGES},
    }


def _cpu() -> str | None:
    """Return the processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, None) or platform.processor() or platform.machine() or None
