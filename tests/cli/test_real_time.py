"""Pipes at low latency: sound comes out while it goes in, in the format in which it came."""

import io
import os
import subprocess
import threading

import numpy as np
import pytest
import soundfile

from tests.support.commands import COMMAND, in_a_process, run

LOW = ["denoise", "-", "-o", "-", "--latency", "low"]
RATE = 8000


def sound(seconds=0.5, channels=1):
    rng = np.random.default_rng(0)
    return (0.1 * rng.standard_normal((int(seconds * RATE), channels))).astype(np.float32)


def wav(audio, subtype="PCM_16"):
    buffer = io.BytesIO()
    soundfile.write(buffer, audio, RATE, subtype=subtype, format="WAV")
    return buffer.getvalue()


@pytest.mark.skipif(os.name != "posix", reason="reads what is there of a pipe by its descriptor")
def test_sound_comes_out_while_it_goes_in(tmp_path):
    data = (3000 * sound(1.0)).astype("<i2").tobytes()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    words = [*COMMAND, *LOW, "--raw", "8000:1:s16", "-q"]
    with subprocess.Popen(words, cwd=tmp_path, **pipes) as process:
        process.stdin.write(data[:RATE])
        process.stdin.flush()
        # All but 40 ms of it is out before more goes in, or this waits until the timer ends it.
        timer = threading.Timer(60, process.kill)
        timer.start()
        ready, first = RATE - 2 * (RATE // 25), b""
        while len(first) < ready and (part := os.read(process.stdout.fileno(), ready)):
            first += part
        assert len(first) >= ready
        rest, _ = process.communicate(data[RATE:], timeout=60)
        timer.cancel()
    assert process.returncode == 0
    assert len(first) + len(rest) == 2 * RATE


def test_wav_comes_out_as_it_went_in_and_as_of_a_file(here, tmp_path):
    data = wav(sound(channels=2), "PCM_24")
    piped = in_a_process(here, *LOW, input=data)
    assert piped.returncode == 0, piped.stderr
    (here / "sound.wav").write_bytes(data)
    run("denoise", here / "sound.wav", "-o", here / "out.wav", "--latency", "low", "-q")
    out, rate = soundfile.read(io.BytesIO(piped.stdout))
    info = soundfile.info(io.BytesIO(piped.stdout))
    assert (rate, info.subtype, out.shape) == (RATE, "PCM_24", (4000, 2))
    np.testing.assert_allclose(out, soundfile.read(here / "out.wav")[0], atol=2**-22)
    cut = in_a_process(here, *LOW, input=data[:-7])
    assert cut.returncode == 2 and b"is truncated: its header promises" in cut.stderr
    assert len(cut.stdout) == len(data) - 12  # the two samples that are not whole


@pytest.mark.parametrize(
    ("data", "options", "sentence"),
    [
        (b"hello", [], b"standard input is not a WAV file"),
        (b"", ["--raw", "8000:1:s16"], b"standard input has no samples"),
        (wav(sound(0))[:40] + b"\xff" * 4, [], b"standard input has no samples"),
        (b"", ["--raw", "8000:mono"], b"--raw must be RATE:CHANNELS:FORMAT"),
        (b"", ["--normalize", "-16"], b"--normalize cannot be combined with --latency low"),
    ],
)
def test_what_cannot_flow(tmp_path, data, options, sentence):
    done = in_a_process(tmp_path, *LOW, *options, input=data)
    assert done.returncode == 2
    assert sentence in done.stderr and b"Traceback" not in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="limits and redirections are POSIX")
def test_streams_that_fail_are_one_sentence(here):
    import resource

    def small_disk():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    with open("out.wav", "wb") as out:
        full = subprocess.run(
            [*COMMAND, *LOW], input=wav(sound()), stdout=out, stderr=subprocess.PIPE,
            preexec_fn=small_disk, check=False,
        )  # fmt: skip
        unreadable = in_a_process(here, *LOW, stdin=out)
    sentence = b"Error: cannot write standard output: File too large\n"
    assert (full.returncode, full.stderr) == (2, sentence)
    assert os.path.getsize("out.wav") == 4096
    sentence = b"Error: cannot read standard input: Bad file descriptor\n"
    assert (unreadable.returncode, unreadable.stderr) == (2, sentence)
