"""What every command must do: where it is run, what it is given, and whatever its streams are."""

import os
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
import soundfile

from alphamf.tools import files
from alphamf.tools.files import identify, lies_in
from tests.support.commands import COMMAND, QUICK, every_command, in_a_process, run, sound

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX paths and descriptors")


# Standard streams that are closed, or that do not take what is written.

STREAMS = every_command() | {"help": ["--help"]}
STREAMS["denoise --json"] = [*STREAMS["denoise"], "--json"]
CASES = [
    (name, redirection) for name in ("help", "denoise") for redirection in (">&-", "2>&-", "<&-")
]
CASES += [
    pytest.param(name, redirection, marks=pytest.mark.slow)
    for name in STREAMS
    for redirection in (">&-", ">&- 2>&- <&-")
    if (name, redirection) not in CASES
]


def redirected(arguments, redirection):
    """Run the command line with a shell's redirection."""
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", *COMMAND, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(("name", "redirection"), CASES)
def test_a_closed_stream_is_no_traceback(here, name, redirection):
    done = redirected(STREAMS[name], redirection)
    assert "Traceback" not in done.stderr and "Error:" not in done.stdout
    lost = ">&- " in f"{redirection} " and not redirection.startswith("2>&-")
    assert done.returncode == (2 if lost else 0), done.stderr
    if redirection == ">&-":
        sentence = "Error: cannot write standard output: Bad file descriptor"
        assert done.stderr.splitlines()[-1] == sentence
    if name == "denoise":
        assert os.path.exists("x.wav")


def test_what_standard_output_does_not_take_is_one_sentence(here):
    done = redirected(["--version"], ">/dev/full")
    sentence = "Error: cannot write standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, sentence)


OUT = ["denoise", "in/0.wav", "-o", "-", *QUICK]
CLOSED_INPUT = "- reads audio from standard input, but standard input is closed"


@pytest.mark.parametrize(
    ("arguments", "redirection", "sentence"),
    [
        (OUT, ">&-", "audio cannot go to standard output, which is closed"),
        (
            OUT,
            ">/dev/full",
            "audio cannot go to standard output, which fails: No space left on device",
        ),
        (["denoise", "-", "-o", "x.wav"], "<&-", CLOSED_INPUT),
        (["info", "-"], "<&-", CLOSED_INPUT),
    ],
)
def test_audio_through_a_closed_or_full_stream_is_refused(here, arguments, redirection, sentence):
    done = redirected(arguments, redirection)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"Error: {sentence}\n")


def test_a_reader_that_leaves_stops_nothing(here):
    """As with `| true`: the files are what the command is for."""
    done = redirected(["denoise", "in/0.wav", "in/1.wav", "--output-dir", "out", *QUICK], "| true")
    assert "Error" not in done.stderr and sorted(os.listdir("out")) == ["0.wav", "1.wav"]


# One folder under two paths, names without case, a folder that is gone, long paths.


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


# Sound that would be left out of a recording: every command says so and ends.

SENTENCE = "continues after the 1.00 s that its header promises; 1.00 s are left out"

COMMANDS = {
    **{name: words for name, words in every_command().items() if name != "models"},
    "train": ["train", "in/0.wav", "-o", "m.npz"],
    "low": ["denoise", "in/0.wav", "-o", "x.wav", "--latency", "low"],
    "reference": ["denoise", "in/1.wav", "-o", "y.wav", "--reference", "in/0.wav"],
}


@pytest.fixture
def half(here):
    """Write a recording of 2 s whose header promises 1 s."""
    data = bytearray(Path(sound("in/0.wav", 2)).read_bytes())
    struct.pack_into("<I", data, data.index(b"data") + 4, 16000)
    Path("in/0.wav").write_bytes(data)
    return bytes(data)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_what_it_would_leave_out(half, name):
    done = run(*COMMANDS[name], code=2)
    assert SENTENCE in " ".join((done.output + done.stderr).split())
    assert not Path("m.npz").exists()
    if Path("x.wav").exists():  # what comes before is done
        assert soundfile.info("x.wav").duration == 1
    if name == "denoise --jobs":  # the rest of a batch is done
        assert len(list(Path("out").glob("*.wav"))) == 3


@pytest.mark.parametrize("latency", [(), ("--latency", "low")])
def test_a_pipe_says_what_it_would_leave_out(half, tmp_path, latency):
    done = in_a_process(tmp_path, "denoise", "-", "-o", "-", *latency, input=half)
    assert done.returncode == 2
    assert SENTENCE.encode() in done.stderr and b"Traceback" not in done.stderr
