r"""Measure the engine of low latency as a host runs it: in C, in chunks of 10 ms, without Python.

For example::

    python -m benchmarks.engine time --minutes 10
    python -m benchmarks.engine threads --streams 8
    python -m benchmarks.engine quiet

``time`` feeds speech in noise of ``benchmarks.clips``, and prints what a second takes, the
percentiles of a chunk in shares of 10 ms, and the page faults and calls of the allocator after the
first chunk. ``threads`` prints the processor time of the same work by one engine and by several in
threads. ``quiet`` prints what a second takes of speech, of digital silence and of next to nothing,
whose numbers are below the least normal ones. It compiles ``benchmarks/engine.c`` by GCC.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from alphamf.denoising.weights import find_online
from alphamf.native.engine import pack
from alphamf.tools import tables
from alphamf.tools.arrays import Floats
from benchmarks.report import options_of, run_main

ROOT = Path(__file__).parents[1]
FLAGS = "-fno-math-errno -fno-trapping-math -ffp-contract=fast -Wl,--wrap=calloc".split()
PARTS = (*sorted(path.name for path in (ROOT / "alphamf" / "native").glob("_*.c")), "engine.c")
KINDS = ((8000, 1), (16000, 1), (16000, 2), (48000, 1), (48000, 2))


def build(folder: Path, *flags: str) -> Path:
    """Compile the driver with the engine into a folder, and return the program."""
    program = folder / "engine"
    sources = [
        ROOT / "benchmarks" / "engine.c",
        *(ROOT / "alphamf/native" / name for name in PARTS),
    ]
    command = ["gcc", *flags, *FLAGS, *sources, "-lm", "-lpthread", "-o", program]
    subprocess.run(command, check=True, capture_output=True)
    return program


def write_weights(folder: Path, rate: int) -> Path:
    """Write the weights for a rate to a folder, and return the file."""
    found = find_online(rate)
    path = folder / f"weights-{rate}"
    path.write_bytes(pack(found.dictionary, found.online, 0))
    return path


def drive(program: Path, *words: object) -> list[str]:
    """Return what the driver prints, in words."""
    command = [program, *map(str, words)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()


def times(folder: Path, program: Path, rate: int, channels: int, sound: Floats) -> list[str]:
    """Return a line of the table of times."""
    sound.astype(np.float32).tofile(folder / "sound")
    weights = write_weights(folder, rate)
    found = drive(program, weights, rate, channels, "time", folder / "sound")
    return [f"{rate}", f"{channels}", *found]


def quiet(rate: int) -> dict[str, Floats]:
    """Return sounds of half a minute at a rate, the last two of which begin with speech."""
    from benchmarks.latency import sound

    speech = sound(rate, 1, 30)
    silence, faint = speech.copy(), speech.copy()
    silence[5 * rate :] = 0
    faint[5 * rate :] *= np.float32(1e-12)
    return {"speech": speech, "silence after speech": silence, "1e-12 of it after speech": faint}


def main() -> None:
    """Run the command line."""
    parser = options_of("benchmarks.engine", __doc__)
    parser.add_argument("what", choices=("time", "threads", "quiet"))
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--streams", type=int, default=8)
    asked = parser.parse_args()
    with TemporaryDirectory() as name:
        folder = Path(name)
        program = build(folder, "-O3")
        shares = [f"{kind} {p}" for kind in ("CPU", "clock") for p in ("50 %", "99.9 %", "worst")]
        headings = ["CPU s per s", *shares, "faults", "allocations"]
        if asked.what == "time":
            from benchmarks.latency import sound

            lines = [
                times(folder, program, *kind, sound(*kind, 60 * asked.minutes)) for kind in KINDS
            ]
            print(tables.markdown(["rate", "channels", *headings], lines))
        elif asked.what == "quiet":
            lines = [
                [name, *times(folder, program, 16000, 1, sound)[2:]]
                for name, sound in quiet(16000).items()
            ]
            print(tables.markdown(["sound", *headings], lines))
        else:
            weights = write_weights(folder, 16000)
            lines = []
            for count in (1, asked.streams):
                found = drive(program, weights, 16000, 1, "threads", count, 2000)
                lines.append([f"{count}", f"{np.mean(np.array(found, float)):.2f}"])
            print(tables.markdown(["engines in threads", "CPU s of each"], lines))


if __name__ == "__main__":
    run_main(main)
