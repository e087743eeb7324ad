"""Libraries have their own settings, and caches that nobody else can write."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CACHE = """
from alphamf.tools import extras
extras.load_library("librosa.util")
import numba, os
print(numba.config.CACHE_DIR, oct(os.stat(numba.config.CACHE_DIR).st_mode)[-3:])
"""

RATIO = """
from alphamf.tools import extras
print(extras.load_library("matplotlib").rcParams["figure.dpi"])
"""


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


def test_without_a_home_the_cache_is_a_folder_that_goes_with_the_process(tmp_path):
    place, mode = run(CACHE, tmp_path).stdout.split()
    assert Path(place).parent == tmp_path and mode == "700" and not Path(place).exists()


def test_the_cache_is_in_the_users_own(tmp_path):
    done = run(CACHE, tmp_path, XDG_CACHE_HOME=str(tmp_path / "a/b"), NUMBA_CACHE_DIR=".")
    assert done.stdout.split() == [str(tmp_path / "a/b/alphamf/numba"), "700"]


@pytest.mark.skipif(os.name != "posix", reason="permissions")
@pytest.mark.parametrize(
    "kind",
    ["open to all", *(pytest.param(x, marks=pytest.mark.slow) for x in ("a link", "a file"))],
)
def test_a_cache_that_others_could_write_is_not_used(tmp_path, kind):
    folder = tmp_path / "alphamf" / "numba"
    folder.parent.mkdir()
    if kind == "a file":
        folder.touch()
    elif kind == "a link":
        (tmp_path / "elsewhere").mkdir()
        folder.symlink_to(tmp_path / "elsewhere")
    else:
        folder.mkdir()
        folder.chmod(0o777)
    place, mode = run(CACHE, tmp_path, XDG_CACHE_HOME=str(tmp_path)).stdout.split()
    assert Path(place) != folder and mode == "700"


def test_matplotlib_has_its_own_settings(tmp_path):
    """Whatever lies in the working directory, at home, or where its variable says."""
    places = tmp_path / "matplotlibrc", tmp_path / ".config/matplotlib/matplotlibrc"
    for settings in (*places, tmp_path / "elsewhere"):
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text("figure.dpi: 7\n")
    done = run(RATIO, tmp_path, HOME=str(tmp_path), MATPLOTLIBRC=str(tmp_path / "elsewhere"))
    assert done.stdout == "100.0\n", done.stderr
