"""A tiny corpus of noisy speech, and ``alphamf evaluate`` run on it in this process."""

import csv
import json
from pathlib import Path

import numpy as np
import soundfile

from alphamf.evaluation.summary import USUAL
from tests.support.commands import run
from tests.support.places import DATA

CORPUS = ("--clean", "clean", "--noisy", "noisy")


def evaluate(*arguments: object, code: int = 0, method: str = "noisy,logmmse"):
    jobs = () if "--jobs" in arguments else ("--jobs", 1)
    return run("evaluate", *arguments, "--method", method, *jobs, code=code)


def speech(kind: str, start: float, seconds: float) -> np.ndarray:
    sound, rate = soundfile.read(DATA / f"sample-{kind}.wav", dtype="float32")
    return sound[int(start * rate) : int((start + seconds) * rate) : rate // 8000]


def write(path: Path, sound: np.ndarray, rate: int = 8000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, sound, rate)
    return path


def lines(folder: str = "evaluation") -> list[dict]:
    return [json.loads(line) for line in Path(folder, "results.jsonl").read_text().splitlines()]


def table(folder: str = "evaluation") -> dict[tuple[str, str], dict[str, object]]:
    """Return the results by method and clip, without the costs, which differ from run to run."""
    with Path(folder, "results.csv").open() as file:
        found = {(row["method"], row["noisy"]): row for row in csv.DictReader(file)}
    for row in found.values():
        for name in ("cpu_seconds", "real_time_factor", "peak_memory_mb"):
            assert float(row.pop(name)) >= 0
        for name in USUAL:
            # Where arrays lie in memory changes the last bit.
            row[name] = row[name] and round(float(row[name]), 9)
    return found
