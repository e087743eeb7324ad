"""Sound that would be left out of a recording: every command that reads one says so and ends."""

import struct
from pathlib import Path

import pytest
import soundfile

from tests.support.commands import in_a_process, run, sound

SENTENCE = "continues after the 1.00 s that its header promises; 1.00 s are left out"


@pytest.fixture
def half(here):
    """Write a recording of 2 s whose header promises 1 s, and a table of pairs that names it."""
    data = bytearray(Path(sound("half.wav", 2)).read_bytes())
    struct.pack_into("<I", data, data.index(b"data") + 4, 16000)
    Path("half.wav").write_bytes(data)
    Path("p.csv").write_text("clean,noisy\nin/0.wav,half.wav\n")
    return bytes(data)


@pytest.mark.parametrize(
    "arguments",
    [
        ("denoise", "half.wav", "-o", "o.wav"),
        ("denoise", "half.wav", "in", "--output-dir", "out", "--preset", "fast"),
        ("denoise", "half.wav", "-o", "o.wav", "--latency", "low"),
        ("denoise", "in/0.wav", "-o", "o.wav", "--preset", "fast", "--reference", "half.wav"),
        ("info", "half.wav"),
        ("mix", "half.wav", "--noise", "in/0.wav", "--snr", "0", "-o", "corpus"),
        ("train", "half.wav", "-o", "m.npz"),
        ("evaluate", "--pairs", "p.csv", "--method", "noisy"),
    ],
    ids=lambda arguments: "-".join(arguments[:1] + arguments[-2:-1]),
)
def test_every_command_says_what_it_would_leave_out(half, arguments):
    done = run(*arguments, code=2)
    assert SENTENCE in " ".join((done.output + done.stderr).split())
    assert not Path("m.npz").exists()
    if Path("o.wav").exists():  # what comes before is done
        assert soundfile.info("o.wav").duration == 1
    if "in" in arguments:  # the rest of a batch is done
        assert len(list(Path("out").glob("*.wav"))) == 4


@pytest.mark.parametrize("latency", [(), ("--latency", "low")])
def test_a_pipe_says_what_it_would_leave_out(half, tmp_path, latency):
    done = in_a_process(tmp_path, "denoise", "-", "-o", "-", *latency, input=half)
    assert done.returncode == 2
    assert SENTENCE.encode() in done.stderr and b"Traceback" not in done.stderr
