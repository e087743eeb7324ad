"""The same bits on every x86-64 processor: start anew with one code path for all of them."""

from __future__ import annotations

import os
import platform
import sys

from alphamf.errors import AlphaMFError

FIXED = {
    "ALPHAMF_LOOPS": "unfused",
    "OPENBLAS_CORETYPE": "Prescott",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_CBWR": "COMPATIBLE",
    "SOXR_USE_SIMD64": "0",
}
"""Environment variables that choose what every x86-64 processor has: the compiled loops, both
BLAS that NumPy comes with, and the resampler."""

TUNABLES = "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX2_Usable,-FMA_Usable,-FMA4_Usable"
"""The same for the C library's exponential, logarithm and sine, by both names that it has had."""

DISABLED = "NPY_DISABLE_CPU_FEATURES"
"""The same for NumPy: processor features that it has code for, and that it is not to use."""


def fix(*, device: str, cluster: str | None) -> None:
    """Start this command anew, in the same process, unless its code paths are fixed already.

    NumPy, BLAS and the C library choose a code path when they are loaded, so it is too late for
    this run to choose another. Standard streams are handed on unread.

    Parameters
    ----------
    device, cluster
        Options of these names.

    Raises
    ------
    AlphaMFError
        The work would be done where the code paths are not known.
    """
    if device != "cpu":
        raise AlphaMFError(f"--deterministic fixes what a CPU computes, not --device {device}")
    if cluster not in (None, "local"):
        raise AlphaMFError(
            "--deterministic fixes what this machine computes, not the workers of --cluster"
        )
    if platform.machine().lower() not in ("x86_64", "amd64") or os.name != "posix":
        raise AlphaMFError(
            "--deterministic is for Linux and macOS on x86-64 processors, "
            f"not for {platform.system()} on {platform.machine()}"
        )
    wanted = _environment()
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **wanted})


def _environment() -> dict[str, str]:
    """Return the variables to set, with the tunables and features that are there already."""
    import numpy as np

    extensions = np.show_config("dicts")["SIMD Extensions"]
    features = {*os.environ.get(DISABLED, "").split(), *extensions.get("found", ())}
    tunables = os.environ.get("GLIBC_TUNABLES", "").split(":")
    others = [tunable for tunable in tunables if tunable and tunable != TUNABLES]
    return {
        **FIXED,
        DISABLED: " ".join(sorted(features)),
        "GLIBC_TUNABLES": ":".join([*others, TUNABLES]),
    }
