"""Sound that would be left out of a recording: every command that reads one says so and ends."""

import struct
from pathlib import Path

import pytest
import soundfile

from tests.support.commands import every_command, in_a_process, run, sound

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
