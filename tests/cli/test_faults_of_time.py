"""Clocks that jump, and processes that are suspended."""

import os
import shutil
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import psutil
import pytest

from benchmarks.attacks.commands import TASKS, leave, prepare, start
from tests.support.places import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="needs Linux"),
]

NAMES = "denoise", "evaluate", "train"


def finished(name: str, folder: Path, process: subprocess.Popen[bytes]) -> dict:
    """Return what a command has made that has to end well and to leave no temporary file."""
    errors = process.communicate(timeout=240)[1].decode()
    assert leave(process)
    assert (process.returncode, errors) == (0, "")
    assert not [path for path in folder.rglob(".*") if path.is_file()]
    assert not list((folder / "tmp").glob("alphamf*"))
    return TASKS[name].products(folder / "out")


@cache
def undisturbed(name: str, folder: Path) -> dict:
    prepare(name, folder)
    return finished(name, folder, start(TASKS[name], folder))


@pytest.fixture(params=NAMES)
def case(request, tmp_path_factory):
    """Return a command's name, a folder with its input, and what it makes undisturbed."""
    name = request.param
    base = tmp_path_factory.getbasetemp() / f"undisturbed-{name}"
    expected = undisturbed(name, base)
    folder = tmp_path_factory.mktemp(name)
    prepare(name, folder)
    shutil.rmtree(folder / "input")  # an Ogg file has another number each time
    shutil.copytree(base / "input", folder / "input")
    return name, folder, expected


@pytest.fixture(scope="module")
def clock(tmp_path_factory):
    """Return a library whose clock of the day jumps."""
    if not shutil.which("cc"):
        pytest.skip("needs a C compiler")
    library = tmp_path_factory.mktemp("clock") / "clock.so"
    source = ROOT / "tests" / "support" / "clock.c"
    subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


def test_a_clock_that_jumps_by_years_changes_nothing(case, clock, monkeypatch):
    name, folder, expected = case
    for path in (folder / "input").rglob("*.*"):
        os.utime(path, (4e9, 4e9))  # in the year 2096
    monkeypatch.setenv("LD_PRELOAD", str(clock))
    words = [sys.executable, "-c", "import time; print(time.time() - time.time())"]
    assert abs(float(subprocess.run(words, capture_output=True, check=True).stdout)) > 1e7
    assert finished(name, folder, start(TASKS[name], folder)) == expected


def test_processes_that_were_suspended_go_on(case):
    name, folder, expected = case
    process = start(TASKS[name], folder)
    first = psutil.Process(process.pid)
    for which in ("first", "others", "all", "first"):
        time.sleep(0.5)
        if process.poll() is not None:
            break
        others = first.children(recursive=True)
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for each in {"first": [first], "others": others, "all": [first, *others]}[which]:
                if each.is_running():
                    each.send_signal(number)
            time.sleep(1.5)
    assert finished(name, folder, process) == expected
