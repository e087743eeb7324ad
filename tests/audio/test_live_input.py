"""Pipes: WAV is read as it comes, to the same samples as from a file."""

import io
import os
import struct
import threading
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest
import soundfile

from alphamf.audio.live_input import open_binary
from alphamf.audio.reader import BLOCK, read
from alphamf.errors import AlphaMFError

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pipes without names are POSIX")

UNKNOWN = [2**32 - 1, 2**31, 0x7FFFFF00]


def encoded(frames=3000, channels=1, subtype="PCM_16", format="WAV", seed=0):
    sound = 0.3 * np.random.default_rng(seed).standard_normal((frames, channels))
    file = io.BytesIO()
    soundfile.write(file, sound, 8000, subtype, format=format)
    return file.getvalue()


def with_size(data, size):
    """Return a WAV file that promises so many bytes of samples."""
    place = data.index(b"data") + 4
    return data[:place] + struct.pack("<I", size) + data[place + 4 :]


@contextmanager
def piped(data, *, end=True, **options):
    """Open a pipe to which a thread writes; where it is not to end, it stays open meanwhile."""
    read_end, write_end = os.pipe()

    def write():
        with ExitStack() as stack:
            stack.callback(os.close, write_end)
            left = memoryview(data)
            while left:
                left = left[os.write(write_end, left) :]
            if not end:
                ended.wait(20)

    ended = threading.Event()
    thread = threading.Thread(target=write)
    with open(read_end, "rb", buffering=0) as stream:
        thread.start()
        try:
            with open_binary(stream, **options) as recording:
                yield recording
        finally:
            ended.set()
            thread.join()


def heard(data, **options):
    with piped(data, **options) as recording:
        return np.concatenate(list(recording.blocks())), recording


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    "subtype", ["PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE", "ULAW", "ALAW"]
)
def test_a_pipe_gives_what_a_file_gives(tmp_path, subtype, channels):
    data = encoded(channels=channels, subtype=subtype)
    (tmp_path / "a.wav").write_bytes(data)
    expected, rate = read(tmp_path / "a.wav")
    for sent in (data, *(with_size(data[: len(data) // 24 * 24], size) for size in UNKNOWN)):
        found, recording = heard(sent)
        assert (recording.rate, recording.channels, recording.cut) == (rate, channels, None)
        assert (recording.format, recording.subtype) == ("WAV", subtype)
        assert recording.frames == len(found)
        np.testing.assert_array_equal(found, expected[: len(found)])
        assert len(expected) - len(found) < 50


@pytest.mark.parametrize("form", ["FLAC", "AIFF", "OGG", "WAVEX", "RF64"])
def test_other_formats_from_a_pipe(tmp_path, form):
    data = encoded(subtype="VORBIS" if form == "OGG" else "PCM_16", format=form)
    (tmp_path / "a").write_bytes(data)
    np.testing.assert_array_equal(heard(data)[0], read(tmp_path / "a")[0])
    np.testing.assert_array_equal(heard(data, whole=True)[0], read(tmp_path / "a")[0])


def test_samples_come_before_the_end():
    data = with_size(encoded(frames=BLOCK + 9), UNKNOWN[0])
    with piped(data, end=False) as recording:
        assert len(next(recording.blocks())) == BLOCK


def test_chunks_before_and_after_the_samples():
    data = encoded()
    place = data.index(b"data")
    chunk = b"LIST" + struct.pack("<I", 5) + b"abcde\0"
    found, recording = heard(data[:place] + chunk + data[place:] + chunk)
    assert recording.cut is None
    np.testing.assert_array_equal(found, heard(data)[0])


def test_a_pipe_that_ends_too_soon():
    data = encoded()[:-1001]
    words = "its header promises 6000 bytes of samples, but it has only 4998"
    found, recording = heard(data)
    assert len(found) == 2499
    assert recording.cut == f"standard input is truncated: {words}; using the first 0.31 s"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", r"standard input is empty \(0 bytes\)"),
        (b"no audio", "not an audio file in a known format"),
        (b"RIFF\0\0\0\0WAVEdata\xff\xff\xff\xff", "cannot be read as audio|not audio|no samples"),
        (with_size(encoded(0), UNKNOWN[0]), "has no samples"),
        (encoded(channels=65), "65 channels, more than 64"),
        (encoded(subtype="FLOAT")[:-4] + np.float32(np.nan).tobytes(), "1 sample that is NaN"),
    ],
    ids=["empty", "text", "no format", "no samples", "channels", "not finite"],
)
def test_what_is_no_recording_is_refused(data, words):
    with pytest.raises(AlphaMFError, match=words):
        heard(data, max_channels=64)
