"""Measure `alphamf denoise` on media files: sync of sound and picture, and memory by length.

For example::

    python -m benchmarks.media --minutes 2,20,120 --write

*Sync*: films of claps, a white picture and a click at the same time, are denoised; how many samples
after its picture each click is heard is compared before and after. *Memory*: podcasts as MP4 with
two chapters, of the sample over and over; memory is what all processes of a run hold together, as
in `benchmarks.memory`, with three steps and without networks, whose memory does not depend on
length. With ``--write`` the tables go to docs/log/in-and-out.md.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from alphamf.audio.reader import open_reader, read
from alphamf.audio.writer import open_writer
from alphamf.tools import tables
from benchmarks.memory import held
from benchmarks.report import caption, publish
from tests.support import claps
from tests.support.claps import Sound

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "log" / "in-and-out.md"
COMMAND = [sys.executable, "-c", "from alphamf.cli.start import main; main()", "denoise"]
CHEAP = ["--steps", "3", "--keep", "1", "--refiner", "none", "--overwrite", "-q", "--jobs", "1"]
FILMS = (
    ("mp4", "mp4", Sound(), "libx264"),
    ("mp4", "mp4", Sound(rate=44100, channels=2), "mpeg4"),
    ("matroska", "mkv", Sound(rate=44100), "libx264"),
    ("matroska", "mkv", Sound("libopus", "flt"), "libx264"),
    ("mov", "mov", Sound("pcm_s16le", "s16"), "mpeg4"),
    ("webm", "webm", Sound("libopus", "flt"), "libvpx"),
    ("asf", "wmv", Sound("wmav2"), "msmpeg4"),
)


def sync(folder: Path) -> str:
    """Return the table of claps before and after denoising."""
    rows = []
    for muxer, suffix, sound, video in FILMS:
        for delay in (0.0, 0.5371):
            film = folder / f"film.{suffix}"
            claps.make(film, muxer, sound, video=video, delay=delay)
            run = [*COMMAND, film.name, *CHEAP, "--preset", "fast"]
            subprocess.run(run, cwd=folder, check=True)
            output = folder / f"film.denoised.{suffix}"
            before, after = claps.offsets(film), claps.offsets(output)
            moved = float(np.abs(np.subtract(before, after)).max())
            same = claps.packets(film, 0) == claps.packets(output, 0)
            rows.append(
                (f"{muxer}, {sound.encoder}, {sound.rate} Hz", f"{delay:g}",
                 ", ".join(f"{x:.1f}" for x in before), ", ".join(f"{x:.1f}" for x in after),
                 f"{moved:.1f}", "yes" if same else "no")
            )  # fmt: skip
    header = (
        "container, codec", "sound begins s", "samples after the flash", "denoised", "moved",
        "picture the same",
    )  # fmt: skip
    return tables.markdown(header, rows)


def podcast(path: Path, minutes: int) -> None:
    """Write speech in noise as an MP4 of sound alone."""
    sound, rate = read(ROOT / "data" / "sample-noisy.wav")
    with open_writer(path, rate, 1, format="MP4", subtype="AAC") as writer:
        left = minutes * 60 * rate
        while left:
            block = sound[:left]
            writer.write(block)
            left -= len(block)


def memory(folder: Path, lengths: list[int]) -> str:
    """Return the table of memory by length."""
    rows = []
    for minutes in lengths:
        path = folder / "podcast.mp4"
        podcast(path, minutes)
        started, most = time.perf_counter(), 0.0
        run = [*COMMAND, path.name, *CHEAP, "--preset", "fast"]
        process = subprocess.Popen(run, cwd=folder, start_new_session=True)
        while process.poll() is None:
            most = max(most, held(process.pid))
            time.sleep(0.2)
        if process.returncode:
            raise SystemExit(f"it ended with {process.returncode}")
        seconds = time.perf_counter() - started
        with open_reader(path) as one, open_reader(folder / "podcast.denoised.mp4") as two:
            rows.append(
                (str(minutes), f"{path.stat().st_size / 1e6:.1f}", f"{most / 1e6:.0f}",
                 f"{seconds:.0f}", str(one.frames), str(two.frames))
            )  # fmt: skip
    header = ("minutes", "MB of file", "most MB of memory", "took s", "samples in", "samples out")
    return tables.markdown(header, rows)


def main() -> None:
    """Run the command line, and print the tables."""
    parser = argparse.ArgumentParser(description="Sync and memory of denoising media files.")
    parser.add_argument("--minutes", default="2,20", help="lengths of podcasts")
    parser.add_argument("--only", choices=("sync", "memory"))
    parser.add_argument("--write", action="store_true", help=f"put the tables into {PAGE.name}")
    options = parser.parse_args()
    lengths = [int(text) for text in options.minutes.split(",")]
    for name in ("sync", "memory"):
        if options.only in (None, name):
            with tempfile.TemporaryDirectory() as folder:
                place = Path(folder)
                table = sync(place) if name == "sync" else memory(place, lengths)
            asked = ["--only", name] + (["--minutes", options.minutes] if name == "memory" else [])
            note = caption("benchmarks.media", asked, ("alphamf", "numpy", "av"))
            text = f"{table}\n\n{note}"
            publish(PAGE, f"media-{name}", text, write=options.write)


if __name__ == "__main__":
    main()
