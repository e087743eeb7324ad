"""What the stable ABI costs: the same extension built for it and for one version of Python.

Both are loaded side by side and called in turn; a call on 16 numbers is nearly all arguments, one
on 65536 nearly all work.
"""

from __future__ import annotations

import importlib.util
import shutil
import statistics
import subprocess
import sysconfig
import tempfile
import time
from pathlib import Path
from types import ModuleType

import numpy as np

SOURCES = Path(__file__).parents[1] / "alphamf" / "inference"
FLAGS = "-shared -fPIC -O3 -fno-math-errno -fno-trapping-math -ffp-contract=fast".split()
ROUNDS = 400
CALLS = {16: 2000, 1 << 16: 20}


def built(folder: Path, *, stable: bool) -> ModuleType:
    """Build the extension of random numbers and load it."""
    for name in ("_random.c", "_float32.h"):
        shutil.copy(SOURCES / name, folder)
    header = folder / "_float32.h"
    text = header.read_text(encoding="utf-8")
    if not stable:
        header.write_text(text.replace("#define Py_LIMITED_API", "// "), encoding="utf-8")
    made = folder / "_random.so"
    include = f"-I{sysconfig.get_path('include')}"
    subprocess.run(["cc", *FLAGS, include, str(folder / "_random.c"), "-o", made], check=True)
    spec = importlib.util.spec_from_file_location("_random", made)
    if spec is None or spec.loader is None:
        raise RuntimeError(f"{made} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def seconds(module: ModuleType, size: int, calls: int) -> float:
    """Return the time of a call."""
    state, out = np.arange(128, dtype=np.uint32) + 7, np.empty(size, np.float32)
    start = time.perf_counter()
    for _ in range(calls):
        module.normal(state, out)
    return (time.perf_counter() - start) / calls


def main() -> None:
    """Print a table of both."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        modules = [built(Path(one), stable=False), built(Path(other), stable=True)]
        print("| numbers | one version, ns | stable ABI, ns | ratio, median of pairs |")
        print("|---:|---:|---:|---:|")
        for size, calls in CALLS.items():
            times: list[list[float]] = [[], []]
            for k in range(ROUNDS):
                for which in (0, 1) if k % 2 else (1, 0):
                    times[which].append(seconds(modules[which], size, calls))
            ratio = statistics.median(b / a for a, b in zip(*times, strict=True))
            least = [f"{min(each) * 1e9:.0f}" for each in times]
            print(f"| {size} | {' | '.join(least)} | {ratio:.3f} |")


if __name__ == "__main__":
    main()
