"""Clocks that jump, and processes that are suspended."""

import http.client
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing
from functools import cache
from pathlib import Path

import psutil
import pytest

from alphamf.serving.limits import Limits
from benchmarks.attacks.commands import TASKS, leave, prepare, start
from benchmarks.page_server import running
from tests.support.commands import sound
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


def test_an_upload_to_a_server_that_was_suspended_goes_on(tmp_path):
    data = Path(sound(tmp_path / "a.wav", 60)).read_bytes()
    with running(tmp_path / "server", "--no-browser", "--jobs", "1") as server:
        address = f"{server.path}api/recordings?name=a.wav&preset=fast&seed=0"
        with closing(http.client.HTTPConnection(server.host, timeout=60)) as client:
            client.putrequest("POST", address)
            client.putheader("Content-Length", str(len(data)))
            client.endheaders()
            for at in range(0, len(data), half := len(data) // 2):
                client.send(data[at : at + half])
                time.sleep(1)
                if not at:
                    server.process.send_signal(signal.SIGSTOP)
                    time.sleep(Limits().idle + 1)
                    server.process.send_signal(signal.SIGCONT)
                    time.sleep(1.5)
            answer = client.getresponse()
            assert (answer.status, answer.read()[:5]) == (201, b'{"id"')
