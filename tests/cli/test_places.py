"""One folder under two paths, names without case, a current folder that is gone, long paths."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from alphamf.tools import files
from alphamf.tools.files import identify, lies_in
from tests.support.commands import COMMAND, QUICK, every_command, run, sound

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX paths")


def cases(names):
    return [pytest.param(n, marks=[] if n == "denoise" else pytest.mark.slow) for n in names]


MOUNT = ["unshare", "--mount", "sh", "-c", 'mount --bind in same && exec "$@"', "sh"]


def mounts() -> bool:
    """Whether this user may mount a folder under a second path."""
    words = ["unshare", "--mount", "mount", "--bind", "/", "/"]
    return (
        bool(shutil.which("unshare"))
        and not subprocess.run(words, capture_output=True, check=False).returncode
    )


@pytest.mark.skipif(not mounts(), reason="needs root, to mount a folder under a second path")
@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("in/0.wav -o same/0.wav", "is also its own output"),
        pytest.param(
            "in/0.wav -o same/1.wav --reference in/1.wav",
            "would replace --reference in/1.wav",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_no_input_is_replaced_under_another_path(here, line, sentence):
    Path("same").mkdir()
    before = {path: path.read_bytes() for path in Path("in").iterdir()}
    words = [*MOUNT, *COMMAND, "denoise", *line.split(), "--overwrite", *QUICK]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and sentence in done.stderr, done.stderr
    assert {path: path.read_bytes() for path in Path("in").iterdir()} == before


def test_a_file_is_the_same_under_all_its_names(here):
    Path("below").mkdir()
    assert identify("in/0.wav") == identify("below/../in/0.wav") == identify(Path("in/0.wav"))
    assert identify("in/0.wav") != identify("in/1.wav") != identify("below/1.wav")
    assert identify("new/x.wav") == identify("below/../new/x.wav") != identify("x.wav")
    assert lies_in("in/0.wav", ".") and lies_in("in/new/0.wav", "in")
    assert not lies_in("in/0.wav", "below") and not lies_in("in/0.wav", "gone")


@posix
def test_a_hard_link_is_another_file(here):
    """Replacing it leaves the first as it is."""
    os.link("in/0.wav", "x.wav")
    before = Path("in/0.wav").read_bytes()
    run("denoise", "in/0.wav", "-o", "x.wav", "--overwrite", *QUICK)
    assert Path("in/0.wav").read_bytes() == before != Path("x.wav").read_bytes()


def test_case_counts_where_the_file_system_says_so(here, monkeypatch):
    """Stands in for a file system that ignores case: a name is there that is not listed."""
    lexists = os.path.lexists

    def ignoring(path):
        folder, name = os.path.split(path)
        names = os.listdir(folder or ".") if os.path.isdir(folder or ".") else []
        return lexists(path) or name.casefold() in {each.casefold() for each in names}

    sound("talk.wav")
    assert identify("TALK.wav") != identify("talk.wav")
    monkeypatch.setattr(os.path, "lexists", ignoring)
    files._ignores_case.cache_clear()
    assert identify("TALK.wav") == identify("talk.wav") != identify("walk.wav")
    before = Path("talk.wav").read_bytes()
    os.link("talk.wav", "Talk.wav")
    refused = run("denoise", "talk.wav", "-o", "Talk.wav", "--overwrite", *QUICK, code=2)
    assert "talk.wav is also its own output" in refused.stderr
    Path("more").mkdir()
    sound("more/Talk.wav", seed=1)
    words = ["talk.wav", "more/Talk.wav", "--output-dir", "out", "--overwrite", *QUICK]
    assert "has the same output as talk.wav" in run("denoise", *words, code=2).stderr
    assert Path("talk.wav").read_bytes() == before
    files._ignores_case.cache_clear()


@posix
@pytest.mark.parametrize("name", cases(every_command()))
def test_a_current_folder_that_was_removed(here, name):
    """Files that are named from the root are done; others are not there, which is a sentence."""
    gone = here / "gone"
    for place, code in ((str(here), 0), (".", 0 if name == "models" else 2)):
        gone.mkdir()
        shell = ["sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", *COMMAND]
        words = [*shell, *every_command(f"{place}/in", place)[name]]
        done = subprocess.run(words, cwd=gone, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr and str(here) not in done.stderr.split(": ")[-1]
        assert ("Error: " in done.stderr) == (code == 2)


@posix
@pytest.mark.parametrize("length", [pytest.param(2000, marks=pytest.mark.slow), 4200])
@pytest.mark.parametrize("name", cases(n for n in every_command() if n != "models"))
def test_long_paths_work_or_are_one_sentence(here, name, length):
    folder = "/".join(["d" * 199] * (length // 200))
    if length < 4096 - len(str(here)):
        shutil.copytree("in", folder)
    for places in ((folder, "."), ("in", folder)):
        words = [*COMMAND, *every_command(*places)[name]]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode in (0, 2) and "Traceback" not in done.stderr
        errors = [line for line in done.stderr.splitlines() if line.startswith("Error: ")]
        assert len(errors) >= (done.returncode == 2)
        assert all("Errno" not in line for line in errors)
