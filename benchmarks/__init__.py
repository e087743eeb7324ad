"""Commands that measure the project, and write BENCHMARKS.md and the figures of docs/."""

import os

# Read when NumPy is first imported: all times are those of one core.
for _library in ("OPENBLAS", "OMP", "MKL"):
    os.environ[f"{_library}_NUM_THREADS"] = "1"
