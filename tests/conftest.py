"""What all tests share: one thread a process, one command line, and the folder of corpora."""

import os
import signal
from functools import cache
from pathlib import Path

# Small products on two cores lose more by waiting for each other than they gain.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
import typer.testing
from hypothesis import settings

from tests.support.places import ROOT

# Typer would build all commands anew, from their signatures, whenever a test runs one.
typer.testing._get_command = cache(typer.testing._get_command)

# Ctrl-C is ignored in the background of a shell, and a hang-up under nohup. A program that a test
# starts inherits what is ignored, but not what a function handles.
for number in {signal.SIGINT, getattr(signal, "SIGHUP", signal.SIGINT)}:
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)

settings.register_profile("busy", deadline=None)  # beside other tests an example may take long
settings.load_profile("busy")


@pytest.fixture
def empty(tmp_path, monkeypatch) -> Path:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder that holds ``corpora``: $ALPHAMF_DATA, or ``../shared`` beside the repository."""
    folder = Path(os.environ.get("ALPHAMF_DATA") or ROOT.parent / "shared")
    if not (folder / "corpora").is_dir():
        pytest.skip(f"no corpora in {folder}: set ALPHAMF_DATA to the folder that holds them")
    return folder


@pytest.fixture
def datasets(shared, monkeypatch):
    """Have experiments read the data sets that are in that folder."""
    if not (shared / "datasets").is_dir():
        pytest.skip(f"no datasets in {shared}: set ALPHAMF_DATA to the folder that holds them")
    monkeypatch.setenv("ALPHAMF_DATA", str(shared))
