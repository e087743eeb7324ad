"""Power cuts at every call to the system: what is promised is on the disk."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.attacks.power_cuts import CUT_TASKS, STRACE, cut, follow
from tests.support.places import ROOT

FOLDER = Path("/work")
GOOD = [
    'mkdir("out", 0777)                = 0',
    "fsync(5</work>)                   = 0",
    'openat(AT_FDCWD</work>, "/work/out/.a.part", O_RDWR|O_CREAT, 0644) = 6</work/out/.a.part>',
    'write(6</work/out/.a.part>, "RIFF", 4) = 4',
    "fsync(6</work/out/.a.part>)       = 0",
    'rename("/work/out/.a.part", "/work/out/a.wav") = 0',
    "fsync(7</work/out>)               = 0",
    'write(1</dev/null>, "a.wav -> out/a.wav", 18) = 18',
]
"""What a command does that loses nothing."""


@pytest.mark.parametrize(
    ("order", "problems"),
    [
        ((0, 1, 2, 3, 4, 5, 6, 7), []),
        ((0, 2, 3, 4, 5, 6), ["the command has ended with out/a.wav, and out may not be there"]),
        (
            (0, 1, 2, 3, 5, 6),
            [
                "out/a.wav may be empty or torn",
                "the command has ended with out/a.wav, which may be empty or torn",
            ],
        ),
        ((0, 1, 2, 3, 4, 5, 7, 6), ["a line names out/a.wav, and out/a.wav may not be there"]),
        ((0, 1, 2, 3, 4, 5), ["the command has ended with out/a.wav, and out/a.wav may not be"]),
    ],
)
def test_what_is_missing_is_found(order, problems):
    found = follow([f"12 {GOOD[k]}\n" for k in order], FOLDER).problems
    assert len(found) == len(problems)
    assert all(a.startswith(b) for a, b in zip(found, problems, strict=True))


strace = pytest.mark.skipif(not shutil.which("strace"), reason="needs strace: apt install strace")


@strace
def test_what_all_writers_share_keeps_its_promise(tmp_path):
    """A file in a new folder, one that replaces it, and the first and the next line of a table."""
    code = (
        "from pathlib import Path; from alphamf.tools import files, jsonlines\n"
        "files.make_folder('a/b/x')\n"
        "for text in ('one', 'two'):\n"
        "    with files.atomic_file('a/b/x') as part: part.write_text(text)\n"
        "    jsonlines.append(Path('r.jsonl'), {'file': 'a/b/x'})\n"
        "    print('a/b/x', flush=True)\n"
    )
    (tmp_path / "work").mkdir()
    command = [*STRACE, "-o", tmp_path / "trace", sys.executable, "-c", code]
    subprocess.run(command, cwd=tmp_path / "work", env={"PYTHONPATH": str(ROOT)}, check=True)
    disk = follow((tmp_path / "trace").read_text().splitlines(), tmp_path / "work")
    assert disk.problems == [] and disk.promises == 6 and disk.syncs == 9


@pytest.mark.slow
@strace
@pytest.mark.parametrize("name", CUT_TASKS)
def test_no_command_promises_what_a_power_cut_takes(tmp_path, name):
    disk = cut(name, CUT_TASKS[name], tmp_path)
    assert disk.problems == [] and disk.promises
