"""Folders for temporary files: gone at the end, and after a kill when the next one is made."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from alphamf.errors import AlphaMFError
from alphamf.tools import files
from alphamf.tools.files import temporary_folder


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_is_its_owners_and_goes_at_the_end(place):
    with temporary_folder("alphamf-test-") as folder:
        assert folder.parent == place and folder.name.startswith("alphamf-test-")
        assert os.name != "posix" or folder.stat().st_mode & 0o777 == 0o700
        (folder / "deeper").mkdir()
    assert not list(place.iterdir())


@pytest.mark.skipif(os.name != "posix", reason="signals and owners are POSIX")
def test_what_a_kill_left_goes_and_what_is_in_use_or_no_folder_stays(place):
    code = (
        "import sys, tempfile, time; tempfile.tempdir = sys.argv[1]\n"
        "from alphamf.tools.files import temporary_folder\n"
        "with temporary_folder('alphamf-test-') as folder:\n"
        "    (folder / 'file').touch(); print(folder, flush=True); time.sleep(100)\n"
    )
    (place / "elsewhere").mkdir()
    (place / "elsewhere" / "file").touch()
    (place / "alphamf-test-link").symlink_to(place / "elsewhere")
    (place / "alphamf-other-0").mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", code, str(place)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        left = process.stdout.readline().strip()
        with temporary_folder("alphamf-test-"):
            assert os.listdir(left) == ["file"]
        process.send_signal(signal.SIGKILL)
    assert os.path.isdir(left)
    with temporary_folder("alphamf-test-"):
        assert not os.path.exists(left)
    assert (place / "elsewhere" / "file").exists() and (place / "alphamf-other-0").exists()


@pytest.mark.parametrize("locks", [True, False])
def test_nothing_is_removed_where_there_are_no_locks(place, monkeypatch, locks):
    (place / "alphamf-test-0").mkdir()
    monkeypatch.setattr("alphamf.tools.files.lock", lambda *_: locks)
    with temporary_folder("alphamf-test-"):
        assert (place / "alphamf-test-0").exists() is not locks


@pytest.mark.parametrize("holds", [True, False])
def test_a_process_that_takes_a_new_folder_for_a_left_one_costs_nothing(place, monkeypatch, holds):
    """As where several processes make folders at once: before the lock it looks like a left one."""
    fcntl = pytest.importorskip("fcntl", reason="locks of POSIX")
    make, others = tempfile.mkdtemp, []

    def made(**about):
        folder = Path(make(**about))
        if len(others) < 3:
            others.append(os.open(folder, os.O_RDONLY))
            if holds:
                fcntl.flock(others[-1], fcntl.LOCK_EX)
            else:
                files._clear("alphamf-test-")
        return str(folder)

    monkeypatch.setattr(tempfile, "mkdtemp", made)
    with temporary_folder("alphamf-test-") as folder:
        (folder / "file").touch()
    for each in others:
        os.close(each)
    assert len(others) == 3 and not list(place.iterdir())


def test_no_place_for_it_is_one_sentence(place, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(place / "absent"))
    with (
        pytest.raises(AlphaMFError, match="cannot create a temporary folder: No such file"),
        temporary_folder("alphamf-test-"),
    ):
        pass
