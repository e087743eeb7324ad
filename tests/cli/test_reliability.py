"""Runs that are stopped, that meet, that find no room."""

import errno
import io
import json
import os
import sys
from pathlib import Path

import pytest

from alphamf.audio.live_input import spool_pipe
from alphamf.errors import AlphaMFError
from alphamf.tools.files import atomic_file
from tests.support.commands import QUICK, every_command, run, sound

posix = pytest.mark.skipif(os.name != "posix", reason="signals, locks and limits are POSIX")


def temporary(target: str) -> Path:
    """Return the name of the temporary file of a target."""
    with atomic_file(target):
        (name,) = Path(target).parent.glob(".*.part")
    os.remove(target)
    return name


def test_a_half_done_folder_is_continued(here):
    """Which outputs a batch makes and leaves: `test_resumed_batch`."""
    run("denoise", "in", "--output-dir", "out", *QUICK)
    os.remove("out/1.wav")
    again = run("denoise", "in", "--output-dir", "out", *QUICK)
    assert again.stdout.count("\n") == 1 and again.stdout.startswith("in/1.wav -> ")
    note, summary = again.stderr.splitlines()
    assert note == "Note: skipped 2 outputs that already exist (use --overwrite to replace them)"
    assert summary.startswith("1 of 3 files denoised in ")
    lines = run("denoise", "in/*.wav", "--output-dir", "out", "--json", *QUICK).stdout
    assert [json.loads(line) for line in lines.splitlines()] == [
        {"file": f"in/{k}.wav", "output": f"out/{k}.wav", "skipped": "the output already exists"}
        for k in range(3)
    ]
    # What was named is meant: that is refused.
    named = run("denoise", "in/2.wav", "--output-dir", "out", *QUICK, code=2)
    assert "out/2.wav already exists" in named.stderr


@posix
def test_two_runs_do_not_write_one_file(here):
    Path("out").mkdir()
    with atomic_file("out/1.wav") as part:
        result = run("denoise", "in", "--output-dir", "out", *QUICK, code=2)
        error, summary = result.stderr.splitlines()
        assert error == "Error: in/1.wav: out/1.wav is being written by another run"
        assert summary.startswith("2 of 3 files denoised in ")
        part.write_bytes(b"of the first run")
    assert Path("out/1.wav").read_bytes() == b"of the first run"
    assert sorted(os.listdir("out")) == ["0.wav", "1.wav", "2.wav"]


def test_a_file_system_without_locks_will_do(here, monkeypatch):
    monkeypatch.setattr("alphamf.tools.temporary.lock", lambda file, sentence: False)
    for name in ("denoise", "train"):
        run(*every_command()[name])
    assert sorted(os.listdir()) == ["in", "m.npz", "x.wav"]


@posix
@pytest.mark.parametrize("put", [os.symlink, os.link, lambda victim, name: os.mkfifo(name)])
def test_nothing_that_lies_in_the_place_of_a_temporary_file_is_written_to(here, put):
    name = temporary("x.wav")
    Path("victim").write_text("precious")
    put("victim", name)
    run(*every_command()["denoise"])
    assert Path("victim").read_text() == "precious"
    assert Path("x.wav").is_file() and not os.path.islink("x.wav")
    assert Path("x.wav").stat().st_nlink == 1


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="no paths of open files")
def test_a_temporary_file_is_written_through_its_descriptor(here):
    Path("victim").write_text("precious")
    name = temporary("x.txt")
    with pytest.raises(AlphaMFError, match="cannot be written: another process"):
        with atomic_file("x.txt") as part:
            name.unlink()
            name.symlink_to("victim")
            part.write_text("of this run")
    assert Path("victim").read_text() == "precious" and not Path("x.txt").exists()


@posix
@pytest.mark.parametrize(
    ("mode", "more"),
    [
        pytest.param(0o600, {"--plot": "p.png"}, marks=pytest.mark.slow),
        (0o640, {}),
        (0o400, {}),
    ],
)
def test_outputs_have_no_more_permissions_than_the_input(here, mode, more):
    os.chmod("in/0.wav", mode)
    extra = {"--noise-output": "n.wav", "--uncertainty": "u.npz", **more}
    words = [word for pair in extra.items() for word in pair]
    old = os.umask(0o022)
    try:
        run("denoise", "in/0.wav", "-o", "x.wav", *words, *QUICK)
    finally:
        os.umask(old)
    found = {name: oct(Path(name).stat().st_mode & 0o777) for name in ("x.wav", *extra.values())}
    assert set(found.values()) == {oct(mode | 0o600)}


@pytest.mark.slow
@posix
def test_names_at_the_limit_and_names_that_are_no_text(here):
    long = "n" * 251 + ".wav"
    sound(long)
    run("denoise", long, "--output-dir", "out", *QUICK)
    assert os.listdir("out") == [long]
    refused = run("denoise", long, *QUICK, code=2)
    assert refused.stderr.endswith(".denoised.wav cannot be written: File name too long\n")
    odd = os.fsdecode(b"caf\xe9")
    os.mkdir(odd)
    sound(f"{odd}/a.wav", seed=1)
    extra = ["--noise-output", f"{odd}.ogg", "--plot", f"{odd}.png", "--uncertainty", f"{odd}.npz"]
    line = run("denoise", f"{odd}/a.wav", "-o", f"{odd}.flac", *extra, "--json", *QUICK).stdout
    assert json.loads(line)["output"] == f"{odd}.flac"
    run("train", odd, "-o", f"{odd}m.npz", "--rank", 2, "--steps", 2, "--rate", 8000)
    assert "8000 Hz" in run("info", f"{odd}m.npz").stdout + run("info", f"{odd}/a.wav").stdout


@pytest.mark.slow
@posix
@pytest.mark.parametrize(
    ("room", "line", "sentence"),
    [
        (1000, "denoise in/0.wav -o x.wav", "x.wav cannot be written: "),
        (6000, "denoise in/0.wav --uncertainty u.npz", " for gain: File too large"),
        (6000, "denoise in/0.wav --plot p.png", "p.png cannot be written: File too large"),
        (1000, "train in -o m.npz --rank 9 --steps 2", "m.npz cannot be written"),
        (2000, "evaluate --pairs in/p.csv --method noisy --jobs 1", "written"),
    ],
)
def test_a_full_disk_is_one_sentence_and_leaves_nothing(here, room, line, sentence):
    import resource

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        result = run(*line.split(), *(QUICK if "denoise" in line else []), code=2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    errors = [line for line in result.stderr.splitlines() if "Error: " in line]
    assert sentence in errors[0] and "Traceback" not in result.stderr
    assert [path for path in Path().rglob("*.*") if path.parts[0] not in ("in", "evaluation")] == []
    assert not list(Path().rglob(".*.part"))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["-", "-o", "x.wav"], "standard input cannot be copied to a temporary folder: "),
        (["in/0.wav", "-o", "-"], "in/0.wav: a copy in a temporary folder cannot be written: "),
        (["in/0.wav", "--trim-silence"], "in/0.wav: no space in a temporary folder for silence: "),
    ],
)
def test_no_place_for_temporary_files_is_one_sentence(here, monkeypatch, words, sentence):
    def nowhere():
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory")

    monkeypatch.setattr("tempfile.gettempdir", nowhere)
    monkeypatch.setattr("alphamf.batch.trim.IN_MEMORY", 1)
    done = run("denoise", *words, *QUICK, stdin=Path("in/0.wav").read_bytes(), code=2)
    assert done.stderr == f"Error: {sentence}No usable temporary directory\n"
    with pytest.raises(AlphaMFError, match="a pipe cannot be copied to a temporary folder"):
        with spool_pipe(io.BytesIO(), "a pipe"):
            pass


@pytest.mark.skipif(sys.platform != "linux", reason="where not even root may write")
@pytest.mark.parametrize("place", ["file/below", "file", "/proc/x"])
def test_folders_that_cannot_be_made_or_written(here, place):
    Path("file").touch()
    result = run("denoise", "in/0.wav", "--output-dir", place, *QUICK, code=2)
    assert result.stderr.count("\n") == 1 and place in result.stderr
