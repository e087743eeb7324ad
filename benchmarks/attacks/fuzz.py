"""Denoise thousands of damaged files: each must give a result or one sentence.

For example::

    ALPHAMF_DATA=shared python -m benchmarks.attacks.fuzz --count 20000 --seed 0

Four fifths are sound files, which are read, denoised in two steps and written; the others are
models. A finding is anything but a finite result or an AlphaMFError of one line; the error of a
decoder that died in its sandbox is a finding, too. This process may use 1 GB of memory more
than at its start; a file that takes more than 20 s ends it. Files of findings are kept in
``--keep``, and so is one that ends the process; ``--start`` continues at a number.
"""

import faulthandler
import os
import resource
import tempfile
import time
import traceback
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from alphamf.audio.reader import open_reader
from alphamf.batch.file import process
from alphamf.batch.inputs import Job
from alphamf.batch.observers import Observers
from alphamf.batch.request import Request
from alphamf.denoising.api import denoise
from alphamf.denoising.settings import PRESETS
from alphamf.denoising.stream_options import StreamOptions
from alphamf.errors import AlphaMFError
from alphamf.learnt import dictionary
from benchmarks.attacks.mutants import model, models, mutate, sounds
from benchmarks.report import run_main, show

PATIENCE = 20.0  # Maximum number of seconds for a file
MEMORY = 2**30  # Maximum number of bytes of memory for a file
PACKET = 4096  # Samples by which a media file may be longer, as it has whole packets


COUNTS = ("files", "results", "refused", "findings")


@dataclass
class Tally:
    """Number of files of a kind by outcome, and the maximum of time and memory for one file."""

    files: int = 0
    results: int = 0
    refused: int = 0
    findings: int = 0
    seconds: float = 0.0
    memory: float = 0.0  # In MiB

    def add(self, outcome: str, seconds: float, memory: float) -> None:
        """Count a file with its outcome; seconds, and memory in MiB."""
        self.files += 1
        self.results += outcome == "result"
        self.refused += outcome == "refused"
        self.findings += outcome == "finding"
        self.seconds = max(self.seconds, seconds)
        self.memory = max(self.memory, memory)


def files(seed: int, start: int) -> Iterator[tuple[int, str, bytes]]:
    """Yield number, kind and content of the files of a seed, from number `start` on."""
    folder = Path(os.environ.get("ALPHAMF_DATA", "shared"), "corpora", "odd")
    originals = sounds(folder if folder.is_dir() else None)
    kinds = [kind for kind in originals if originals[kind]]
    weights = np.array([{"wav": 4, "others": 2, "media": 2}.get(kind, 1.5) for kind in kinds])
    everything = [data for kind in kinds for data in originals[kind]]
    number = start
    while True:
        # A generator each, so that one file can be made again.
        rng = np.random.default_rng([seed, number])
        if number % 5 < 4:
            kind = kinds[rng.choice(len(kinds), p=weights / weights.sum())]
            data = originals[kind][rng.integers(len(originals[kind]))]
            yield number, kind, mutate(rng, data, everything[rng.integers(len(everything))])
        else:
            yield number, *next(islice(models(rng), number // 5 % 5, None))
        number += 1


def attempt(path: Path, kind: str, settings: Any, folder: Path) -> tuple[str, str]:
    """Return ``result``, ``refused`` or ``finding``, and the details."""
    try:
        if kind.startswith("model"):
            sound = np.random.default_rng(0).standard_normal(1600).astype(np.float32)
            found = denoise(sound, 8000, settings, model=dictionary.load(path))
            if not (np.isfinite(found.audio).all() and np.isfinite(found.gain_std).all()):
                return "finding", "the result is not finite"
            return "result", ""
        options = StreamOptions(settings, model=str(folder / "tiny.npz"))
        request = Request(options, Observers, overwrite=True)
        output = process(Job(str(path), str(folder / f"out{path.suffix}"), True), None, request)
    except AlphaMFError as error:
        sentence = str(error)
        wrong = not sentence.isprintable() or "the decoder crashed" in sentence
        return ("finding" if wrong else "refused"), sentence
    except BaseException:
        return "finding", traceback.format_exc()
    try:
        with open_reader(output["output"]) as reader:
            same = (reader.rate, reader.channels, reader.frames)
        more = reader.frames - output["samples"]  # containers of FFmpeg may hold whole packets
        if same[:2] != (output["rate"], output["channels"]) or not (
            0 <= more <= (PACKET if kind == "media" else 0)
        ):
            return "finding", f"the output has {same}: {output}"
    except AlphaMFError as error:
        return "finding", f"the output cannot be read: {error}"
    return "result", ""


def _memory(name: str) -> int:
    """Return a value of /proc/self/status in KiB, by the start of its line."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1])


def table(tallies: dict[str, Tally]) -> list[list[str]]:
    """Return the tallies as lines of a table, with their sum."""
    every = tallies.values()
    sums = (sum(getattr(each, name) for each in every) for name in COUNTS)
    most = (max(getattr(each, name) for each in every) for name in ("seconds", "memory"))
    lines = [*sorted(tallies.items()), ("all", Tally(*sums, *most))]
    rows = [
        [
            kind,
            *(str(getattr(tally, name)) for name in COUNTS),
            f"{tally.seconds:.2f}",
            f"{tally.memory:.0f}",
        ]
        for kind, tally in lines
    ]
    return [["kind", *COUNTS, "slowest s", "most MB"], *rows]


def main(*, count: int = 20000, start: int = 0, seed: int = 0, keep: Path = Path("fuzz")) -> None:
    """Try the files, and print the table and the findings."""
    warnings.simplefilter("error")
    shown = os.fdopen(os.dup(2), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # where libmpg123 prints
    settings = replace(PRESETS["fast"], steps=2, keep=1, noise_rank=1)
    keep.mkdir(parents=True, exist_ok=True)
    started, tallies = time.perf_counter(), defaultdict[str, Tally](Tally)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
        tiny = Path(name, "tiny.npz")
        tiny.write_bytes(model())
        attempt(tiny, "model", settings, Path(name))  # so that everything is imported
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        for number, kind, data in islice(files(seed, start), count - start):
            path = keep / f"{seed}-{number}.{kind if kind.isalnum() else 'npz'}"
            path.write_bytes(data)
            Path("/proc/self/clear_refs").write_text("5")
            before, began = _memory("VmRSS"), time.perf_counter()
            faulthandler.dump_traceback_later(PATIENCE, exit=True, file=shown)
            outcome, details = attempt(path, kind, settings, Path(name))
            faulthandler.cancel_dump_traceback_later()
            tallies[kind].add(
                outcome, time.perf_counter() - began, (_memory("VmHWM") - before) / 1024
            )
            if outcome == "finding":
                print(f"{seed}-{number} ({kind}): {details}", flush=True)
            else:
                path.unlink()
    show(table(tallies), f" It took {time.perf_counter() - started:.0f} s.")


if __name__ == "__main__":
    run_main(main)
