"""Caches of libraries where the user's home cannot be written, and the memory of a machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from alphamf.tools import memory
from tests.support.places import DATA

ENSURE = "import os; from alphamf.tools import caches; caches.ensure(); "

ANOTHERS = {"NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator,UserWideCacheLocator"}
"""As where another user installed alphamf: numba cannot write beside the libraries."""


def run(code, folder, *arguments, **environment):
    """Run code in a process whose home cannot be written, or as `environment` says."""
    plain = {k: v for k, v in os.environ.items() if k not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**plain, "HOME": "/dev/null", "TMPDIR": str(folder), **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_numba_gets_a_folder_of_its_own_that_goes_with_the_process(tmp_path):
    code = ENSURE + "p = os.environ['NUMBA_CACHE_DIR']; print(p, oct(os.stat(p).st_mode)[-3:])"
    place, mode = run(code, tmp_path).stdout.split()
    assert Path(place).parent == tmp_path and mode == "700" and not Path(place).exists()


def test_a_home_that_can_be_written_is_used(tmp_path):
    code = ENSURE + "print(os.environ.get('NUMBA_CACHE_DIR'))"
    assert run(code, tmp_path, HOME=str(tmp_path)).stdout == "None\n"
    assert run(code, tmp_path, XDG_CACHE_HOME=str(tmp_path / "a/b")).stdout == "None\n"
    assert run(code, tmp_path, NUMBA_CACHE_DIR="own").stdout == "own\n"


@pytest.mark.skipif(os.name != "posix", reason="permissions")
def test_a_home_that_may_not_be_entered_is_not_used(tmp_path):
    (tmp_path / "home").mkdir(0)
    code = "import os; from alphamf.tools import caches; os.geteuid() or os.setuid(65534); "
    code += "caches.ensure(); print(os.environ['NUMBA_CACHE_DIR'])"
    done = run(code, tmp_path, HOME=str(tmp_path / "home"))
    assert "alphamf-" in done.stdout, done.stderr


@pytest.mark.slow
def test_train_needs_no_home(tmp_path):
    code = "from alphamf.cli.app import main; main()"
    words = ["train", str(DATA / "sample-clean.wav"), "-o", "m.npz", "--rank", "2", "--steps", "2"]
    done = run(code, tmp_path, *words, **ANOTHERS)
    assert (done.returncode, done.stderr) == (0, "")
    assert os.listdir(tmp_path) == ["m.npz"]


def test_the_memory_of_this_machine_is_known():
    assert 2**27 < memory.total() < 2**50
    assert memory.amount(1.5e9) == "1.5 GB" and memory.amount(2.5e15) == "2,500,000 GB"
