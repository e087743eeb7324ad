"""The package on Windows, by a stand-in; `.ci/run` has mypy read it as on other systems, too."""

import subprocess
import sys

import pytest

from tests.support.places import ROOT

pytest.importorskip("mypy")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for open files in /proc")

IMPORTS = """
import importlib, pkgutil
import alphamf
failed = {}
for each in pkgutil.walk_packages(alphamf.__path__, "alphamf."):
    if each.name.endswith("__main__") or each.name == "alphamf.native._engine":
        continue  # the engine is a library without Python
    try:
        importlib.import_module(each.name)
    except ImportError as error:
        top = (error.name or "").partition(".")[0]
        if top in sys.stdlib_module_names or top in ("", "alphamf"):
            failed[each.name] = error
    except Exception as error:
        failed[each.name] = error
assert not failed, failed
from alphamf.tools import processes
assert "alphamf.denoising.estimate" in sys.modules and processes.sys.platform == "win32"
"""

FILES = """
from pathlib import Path
from alphamf.errors import AlphaMFError
from alphamf.tools.files import atomic_file, exclusive_lock
from alphamf.tools.temporary import lock

def refused(manager):
    try:
        with manager:
            return False
    except AlphaMFError as error:
        return str(error)

target = Path("made.txt")
for text in ("first", "second"):
    with atomic_file(target) as part:
        part.write_text(text)
        assert "another run" in refused(atomic_file(target))
        (left,) = Path().glob(".alphamf-*.part")
    assert target.read_text() == text and list(Path().iterdir()) == [target]
left.write_text("what a killed run left")
with atomic_file(target) as part:
    assert part.read_text() == ""
    part.write_text("third")
assert target.read_text() == "third"

folder = Path("folder")
folder.mkdir()
for place, is_folder in ((folder, True), (target, False)):
    with exclusive_lock(place, "taken", folder=is_folder):
        assert refused(exclusive_lock(place, "taken", folder=is_folder)) == "taken"
        assert target.read_text() == "third"
    assert not refused(exclusive_lock(place, "taken", folder=is_folder))
assert sorted(Path().iterdir()) == [folder, target]
"""

STORES = """
import tempfile
from pathlib import Path
tempfile.tempdir = str(Path().resolve())
from alphamf.tools.files import temporary_folder
with temporary_folder("alphamf-serve-") as first:
    (first / "recording").write_text("")
    with temporary_folder("alphamf-serve-"):
        pass
    assert (first / "recording").exists()
assert list(Path().iterdir()) == []
"""

SOUND = """
from alphamf.cli.app import main
sys.argv = ["alphamf", "denoise", *sys.argv[1:]]
main()
"""


def on_windows(code, folder, *arguments):
    """Run code in a process that takes this system for Windows, and return what it prints."""
    start = f"import sys; sys.path.append({str(ROOT)!r})\nfrom tests.support import windows\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{start}windows.pretend()\n{code}", *arguments],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_stand_in_lacks_what_windows_lacks():
    from tests.support.windows import absent

    assert {"fork", "mkfifo", "sched_getaffinity", "getuid", "O_NOFOLLOW"} <= absent("os")
    assert {"SIGKILL", "SIGHUP", "pthread_sigmask"} <= absent("signal")
    assert not {"open", "replace", "O_EXCL", "getpid"} & absent("os")
    assert not {"SIGINT", "SIGTERM", "raise_signal"} & absent("signal")


@pytest.mark.slow
def test_every_module_can_be_imported(tmp_path):
    on_windows(IMPORTS, tmp_path)


def test_files_are_whole_and_locked(tmp_path):
    on_windows(FILES, tmp_path)


def test_servers_leave_each_others_recordings(tmp_path):
    pytest.importorskip("starlette")
    on_windows(STORES, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_denoise_writes_whole_files(tmp_path, jobs):
    sounds = [str(ROOT / "data" / f"sample-{name}.wav") for name in ("noisy", "clean")]
    short = ["--preset", "fast", "--steps", "4", "--jobs", jobs, "--end", "1"]
    on_windows(SOUND, tmp_path, *sounds, "--output-dir", str(tmp_path / "made"), *short)
    made = sorted(path.name for path in (tmp_path / "made").iterdir())
    assert made == ["sample-clean.wav", "sample-noisy.wav"]
