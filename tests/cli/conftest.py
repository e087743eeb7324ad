"""Folders in which commands are run."""

from pathlib import Path

import pytest

from alphamf.evaluation.page import report
from tests.support.commands import sound
from tests.support.evaluation_corpus import speech, write


@pytest.fixture
def here(empty):
    """Work in a folder whose subfolder ``in`` holds three recordings and a table of pairs."""
    Path("in").mkdir()
    for k in range(3):
        sound(f"in/{k}.wav", seed=k)
    Path("in/p.csv").write_text("clean,noisy\n0.wav,1.wav\n")
    return empty


@pytest.fixture
def corpus(empty):
    """Make a corpus in the working folder: a second of each of two clips at two levels."""
    for k, name in enumerate("ab"):
        clean, noisy = (speech(kind, 0.5 + k, 1.0) for kind in ("clean", "noisy"))
        write(Path(f"clean/{name}.wav"), clean)
        write(Path(f"noisy/fan_5dB/{name}.wav"), noisy)
        write(Path(f"noisy/{name}_fan_sn11.wav"), (clean + noisy) / 2)
    return empty


@pytest.fixture
def plain_page(monkeypatch):
    """Replace the report by a line of text, which saves drawing it."""

    def write_page(output, results, settings):
        (output / "report.html").write_text(f"{len(results)} {settings['version']}")

    monkeypatch.setattr(report, "write", write_page)
