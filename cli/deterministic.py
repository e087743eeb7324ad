"""The same bits on x86-64 processors with AVX2: start anew with one code path for all of them."""

from __future__ import annotations

import os
import platform
import sys

from alphamf.errors import AlphaMFError

FIXED = {
    "ALPHAMF_LOOPS": "v4",
    "OPENBLAS_CORETYPE": "Haswell",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_CBWR": "COMPATIBLE",
    "SOXR_USE_SIMD64": "0",
}
"""Environment variables that choose what processors with AVX2 have: both BLAS that NumPy comes
with, and the resampler. Of the compiled loops the copies v4 and v3 give the same bits, unlike AMX.
"""

DISABLED = "NPY_DISABLE_CPU_FEATURES"
"""The same for NumPy: processor features that it has code for, and that it is not to use."""

KEPT = {"X86_V2", "X86_V3", "AVX", "F16C", "FMA3", "AVX2"}
"""Features that it uses, by the names of its versions, where it finds them; others go."""

TUNABLES, CAPABILITIES = "GLIBC_TUNABLES", "glibc.cpu.hwcaps="
"""The C library has one exponential, logarithm and sine for all processors with AVX2 and FMA,
unless a tunable hides these."""


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
        The work would be done where the code paths are not known, or the processor lacks AVX2.
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
    found, wanted = _environment()
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **wanted})
    if "X86_V3" not in found and not found >= {"AVX2", "FMA3"}:
        raise AlphaMFError(
            "--deterministic is for processors with AVX2 and FMA, which this one lacks"
        )


def _environment() -> tuple[set[str], dict[str, str]]:
    """Return the features that NumPy uses, and the variables to set: others' tunables stay."""
    import numpy as np

    extensions = np.show_config("dicts")["SIMD Extensions"]
    found = {*extensions.get("baseline", ()), *extensions.get("found", ())}
    unwanted = {*os.environ.get(DISABLED, "").split(), *extensions.get("found", ())} - KEPT
    tunables = os.environ.get(TUNABLES, "").split(":")
    others = [tunable for tunable in tunables if not tunable.startswith(CAPABILITIES)]
    return found, {**FIXED, DISABLED: " ".join(sorted(unwanted)), TUNABLES: ":".join(others)}
