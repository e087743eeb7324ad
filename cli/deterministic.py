"""Give identical results on all x86-64 processors with AVX2, by restarting the command."""

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
"""Environment variables that select code paths for AVX2 in both BLAS libraries that NumPy ships
with, and in the resampler. The copies v4 and v3 of the compiled loops give the same bits, unlike
AMX.
"""

DISABLED = "NPY_DISABLE_CPU_FEATURES"
KEPT = {"X86_V2", "X86_V3", "AVX", "F16C", "FMA3", "AVX2"}
NEWER = {"X86_V4", "AVX512F", "AVX512CD", "AVX512_SKX", "AVX512_CLX", "AVX512_CNL"}
NEWER |= {"AVX512_KNL", "AVX512_KNM", "AVX512_ICL", "AVX512_SPR"}
"""Processor features that NumPy may use (`KEPT`) and that are disabled (`NEWER`), by their names in
all versions of NumPy; others that it finds are disabled, too."""

TUNABLES, CAPABILITIES = "GLIBC_TUNABLES", "glibc.cpu.hwcaps="
"""Environment variable, and the tunable in it that is removed because it can hide AVX2 or FMA: then
the C library's exponential, logarithm and sine would differ between processors."""


def restart_early() -> None:
    """Restart this command unless its environment variables are right; on x86-64 and POSIX only.

    Call it as early as possible, so that little is imported twice.
    """
    wanted = _environment()
    if _suits() and any(os.environ.get(name) != value for name, value in wanted.items()):
        _start_anew(wanted)


def restart_with_fixed_paths() -> None:
    """Restart this command in the same process, unless its code paths are already fixed.

    NumPy, BLAS and the C library choose code paths only when they are loaded. Standard streams are
    passed on unread. Raises an AlphaMFError if the system or the processor is not suitable.
    """
    if not _suits():
        raise AlphaMFError(
            "--deterministic needs Linux or macOS on an x86-64 processor, not "
            f"{platform.system()} on {platform.machine()}"
        )
    restart_early()
    wanted = _environment()
    import numpy as np

    extensions = np.show_config("dicts")["SIMD Extensions"]
    found = {*extensions.get("baseline", ()), *extensions.get("found", ())}
    if "X86_V3" not in found and not found >= {"AVX2", "FMA3"}:
        raise AlphaMFError(
            "--deterministic needs a processor with AVX2 and FMA, which this one does not have"
        )
    if others := {*extensions.get("found", ())} - KEPT:
        _start_anew({**wanted, DISABLED: " ".join([wanted[DISABLED], *sorted(others)])})


def _suits() -> bool:
    return platform.machine().lower() in ("x86_64", "amd64") and os.name == "posix"


def _start_anew(variables: dict[str, str]) -> None:
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **variables})


def _environment() -> dict[str, str]:
    """Return the environment variables to set, with the user's other settings in them."""
    disabled = ({*os.environ.get(DISABLED, "").split()} | NEWER) - KEPT
    tunables = os.environ.get(TUNABLES, "").split(":")
    others = [tunable for tunable in tunables if not tunable.startswith(CAPABILITIES)]
    return {**FIXED, DISABLED: " ".join(sorted(disabled)), TUNABLES: ":".join(others)}
