"""Standard streams that are closed, or that do not take what is written."""

import os
import subprocess

import pytest

from tests.support.commands import COMMAND, QUICK

pytestmark = pytest.mark.skipif(os.name != "posix", reason="closed descriptors are POSIX")

DENOISE = ["denoise", "in/0.wav", "in/1.wav", "--output-dir", "out", *QUICK]

COMMANDS = {
    "models": ["models"],
    "info": ["info", "in/0.wav"],
    "denoise": DENOISE,
    "denoise --json": [*DENOISE, "--json"],
    "denoise --jobs": [*DENOISE, "--jobs", "2"],
    "train": ["train", "in", "-o", "m.npz", "--rank", "2", "--steps", "2"],
    "mix": ["mix", "in/0.wav", "--noise", "in/1.wav", "-o", "corpus", "--snr", "5"],
    "evaluate": ["evaluate", "--pairs", "in/p.csv", "--method", "noisy", "-o", "results"],
    "experiment": ["experiment", "list"],
    "help": ["--help"],
}


def run(arguments, redirection):
    """Run the command line with a shell's redirection."""
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", *COMMAND, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def check(name, redirection):
    """Check that a command does its work, and ends without a traceback."""
    done = run(COMMANDS[name], redirection)
    assert "Traceback" not in done.stderr and "Error:" not in done.stdout
    lost = ">&- " in f"{redirection} " and not redirection.startswith("2>&-")
    assert done.returncode == (2 if lost else 0), done.stderr
    if redirection == ">&-":
        sentence = "Error: cannot write standard output: Bad file descriptor"
        assert done.stderr.splitlines()[-1] == sentence
    if name.startswith("denoise"):
        assert sorted(os.listdir("out")) == ["0.wav", "1.wav"]


@pytest.mark.slow
@pytest.mark.parametrize("redirection", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_closed_stream_is_no_traceback(here, name, redirection):
    check(name, redirection)


@pytest.mark.parametrize("redirection", [">&-", "2>&-", "<&-"])
def test_a_closed_stream_is_no_traceback_of_a_small_command(here, redirection):
    check("help", redirection)


def test_what_standard_output_does_not_take_is_one_sentence(here):
    done = run(["--version"], ">/dev/full")
    sentence = "Error: cannot write standard output: No space left on device\n"
    assert (done.returncode, done.stderr) == (2, sentence)


@pytest.mark.parametrize(
    ("arguments", "redirection", "sentence"),
    [
        (
            ["denoise", "in/0.wav", "-o", "-", *QUICK],
            ">&-",
            "Error: audio cannot go to standard output, which is closed\n",
        ),
        (
            ["denoise", "in/0.wav", "-o", "-", *QUICK],
            ">/dev/full",
            "Error: audio cannot go to standard output, which fails: No space left on device\n",
        ),
        (
            ["denoise", "-", "-o", "x.wav"],
            "<&-",
            "Error: - reads audio from standard input, but standard input is closed\n",
        ),
        (
            ["info", "-"],
            "<&-",
            "Error: - reads audio from standard input, but standard input is closed\n",
        ),
    ],
)
def test_audio_through_a_closed_or_full_stream_is_refused(here, arguments, redirection, sentence):
    done = run(arguments, redirection)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", sentence)


def test_a_reader_that_leaves_stops_nothing(here):
    """As with `| true`: the files are what the command is for."""
    read, write = os.pipe()
    os.close(read)
    command = [*COMMAND, *COMMANDS["denoise"]]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, "Error" in done.stderr) == (0, False)
    assert sorted(os.listdir("out")) == ["0.wav", "1.wav"]
