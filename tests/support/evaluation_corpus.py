"""A tiny corpus of noisy speech, and ``alphamf evaluate`` run on it in this process."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import soundfile
from typer.testing import CliRunner

from alphamf.cli.app import app
from alphamf.evaluation.page import report
from alphamf.evaluation.summary import USUAL
from tests.support.places import DATA

CORPUS = ("--clean", "clean", "--noisy", "noisy")


def evaluate(*arguments: object, code: int = 0, method: str = "noisy,logmmse"):
    words = ["evaluate", *map(str, arguments), "--method", method]
    if "--jobs" not in words:
        words += ["--jobs", "1"]
    result = CliRunner().invoke(app, words)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def speech(kind: str, start: float, seconds: float) -> np.ndarray:
    sound, rate = soundfile.read(DATA / f"sample-{kind}.wav", dtype="float32")
    return sound[int(start * rate) : int((start + seconds) * rate) : rate // 8000]


def write(path: Path, sound: np.ndarray, rate: int = 8000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, sound, rate)
    return path


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """Make a corpus in the working folder: a second of each of two clips at two levels."""
    monkeypatch.chdir(tmp_path)
    for k, name in enumerate("ab"):
        clean, noisy = (speech(kind, 0.5 + k, 1.0) for kind in ("clean", "noisy"))
        write(Path(f"clean/{name}.wav"), clean)
        write(Path(f"noisy/fan_5dB/{name}.wav"), noisy)
        write(Path(f"noisy/{name}_fan_sn11.wav"), (clean + noisy) / 2)
    return tmp_path


@pytest.fixture
def plain_page(monkeypatch):
    """Replace the report by a line of text, which saves drawing it."""

    def write_page(output, results, settings):
        (output / "report.html").write_text(f"{len(results)} {settings['version']}")

    monkeypatch.setattr(report, "write", write_page)


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
