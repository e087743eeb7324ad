"""Measure what `alphamf denoise --deterministic` costs, in whole and by its parts.

For example::

    python -m benchmarks.deterministic --rounds 5

The sample is denoised with each preset in turn: as it is, with the variables of some parts of the
option, and with the option. Times are processor times of the whole command, as ratios to those of
the same round without any. With ``--write`` the table goes to docs/reliability.md.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from alphamf.cli.deterministic import FIXED
from alphamf.tools import tables
from benchmarks.report import caption, options_of, publish

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reliability.md"
COMMAND = [sys.executable, "-c", "from alphamf.cli.start import main; main()"]
PRESETS = ("fast", "balanced")
PARTS: dict[str, tuple[str, ...]] = {
    "nothing": (),
    "compiled loops and networks without AMX": ("ALPHAMF_LOOPS",),
    "matrix products": ("OPENBLAS_CORETYPE",),
    "both": ("ALPHAMF_LOOPS", "OPENBLAS_CORETYPE"),
    "`--deterministic`": (),
}
"""What is fixed, by variables of the option."""


def seconds(preset: str, part: str, output: str) -> float:
    """Return the processor time of a run."""
    variables = {name: FIXED[name] for name in (*PARTS[part], "OPENBLAS_NUM_THREADS")}
    command = ["denoise", str(ROOT / "data/sample-noisy.wav"), "-o", output, "--overwrite"]
    command += ["-q", "--jobs", "1", "--preset", preset]
    command += ["--deterministic"] if part.startswith("`") else []
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*COMMAND, *command], env={**os.environ, **variables}, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> None:
    """Run all, and print the table."""
    parser = options_of("benchmarks.deterministic", __doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    asked = parser.parse_args()
    found: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(asked.rounds):
            for preset in PRESETS:
                for part in PARTS:
                    took = seconds(preset, part, f"{folder}/x.wav")
                    found.setdefault((preset, part), []).append(took)
    rows = []
    for part in PARTS:
        cells = []
        for preset in PRESETS:
            pairs = zip(found[preset, part], found[preset, "nothing"], strict=True)
            mean, error = tables.mean_and_error(took / plain for took, plain in pairs)
            cells.append("1" if part == "nothing" else tables.with_error(mean, error, 2))
        rows.append([part, *cells])
    made = caption("benchmarks.deterministic", ["--rounds", str(asked.rounds)], ("numpy",))
    headings = ["fixed", *(f"time, `{preset}`" for preset in PRESETS)]
    publish(
        PAGE, "deterministic", f"{tables.markdown(headings, rows)}\n\n{made}", write=asked.write
    )


if __name__ == "__main__":
    main()
