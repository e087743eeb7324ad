"""Standard streams that are closed, or that do not take what is written."""

import os
import subprocess

import pytest

from tests.support.commands import COMMAND, QUICK, every_command

pytestmark = pytest.mark.skipif(os.name != "posix", reason="closed descriptors are POSIX")

COMMANDS = every_command() | {"help": ["--help"]}
COMMANDS["denoise --json"] = [*COMMANDS["denoise"], "--json"]
CASES = [
    (name, redirection) for name in ("help", "denoise") for redirection in (">&-", "2>&-", "<&-")
]
CASES += [
    pytest.param(name, redirection, marks=pytest.mark.slow)
    for name in COMMANDS
    for redirection in (">&-", ">&- 2>&- <&-")
    if (name, redirection) not in CASES
]


def run(arguments, redirection):
    """Run the command line with a shell's redirection."""
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", *COMMAND, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(("name", "redirection"), CASES)
def test_a_closed_stream_is_no_traceback(here, name, redirection):
    done = run(COMMANDS[name], redirection)
    assert "Traceback" not in done.stderr and "Error:" not in done.stdout
    lost = ">&- " in f"{redirection} " and not redirection.startswith("2>&-")
    assert done.returncode == (2 if lost else 0), done.stderr
    if redirection == ">&-":
        sentence = "Error: cannot write standard output: Bad file descriptor"
        assert done.stderr.splitlines()[-1] == sentence
    if name == "denoise":
        assert os.path.exists("x.wav")


def test_what_standard_output_does_not_take_is_one_sentence(here):
    done = run(["--version"], ">/dev/full")
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
    done = run(arguments, redirection)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"Error: {sentence}\n")


def test_a_reader_that_leaves_stops_nothing(here):
    """As with `| true`: the files are what the command is for."""
    done = run(["denoise", "in/0.wav", "in/1.wav", "--output-dir", "out", *QUICK], "| true")
    assert "Error" not in done.stderr and sorted(os.listdir("out")) == ["0.wav", "1.wav"]
