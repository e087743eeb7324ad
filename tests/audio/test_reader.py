"""Audio files: what is refused and why, what comes back as it was written, what never remains."""

import csv
import io
import math
import os
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from alphamf.audio.reader import open_reader, read
from alphamf.audio.resample import resample
from alphamf.audio.writer import open_writer
from alphamf.errors import AlphaMFError
from tests.support.glides import glide

RATE = 8000


def write_wav(path: Path, samples: np.ndarray, rate: int = RATE, **options: str) -> Path:
    soundfile.write(path, samples, rate, **options)
    return path


def sentence(source: object) -> str:
    """Return the one sentence with which `read` refuses a source."""
    with pytest.raises(AlphaMFError) as refused:
        read(source)
    text = str(refused.value)
    assert "\n" not in text and text.isprintable()
    return text


# Odd files --------------------------------------------------------------------------------------

REFUSED = {
    "empty.wav": "has no samples",
    "zero_bytes.wav": "is empty (0 bytes)",
    "truncated.wav": "promises 256000 bytes of samples, but it has only 96001",
    "truncated_header.wav": "header ends before the samples start",
    "text.wav": "not an audio file in a known format",
    "nan_inf.wav": "13 samples that are NaN or infinite, the first at 0.500 s",
}


@pytest.mark.parametrize("name", REFUSED)
def test_broken_files_are_refused_with_their_name_and_the_reason(shared, name):
    text = sentence(shared / "corpora/odd" / name)
    assert name in text
    assert REFUSED[name] in text


def test_odd_files_that_are_sound_are_read_as_the_manifest_says(shared):
    folder = shared / "corpora/odd"
    for row in csv.DictReader((folder / "MANIFEST.csv").read_text().splitlines()):
        if row["path"] in REFUSED:
            continue
        with open_reader(folder / row["path"]) as file:
            expected = f"{file.frames} frames x {file.channels}, {file.rate} Hz, {file.subtype}"
            assert expected == row["libsndfile"]
            assert sum(map(len, file.blocks(999))) == file.frames


def test_reference_files_of_a_missing_folder_and_of_no_permission(tmp_path):
    assert sentence(tmp_path / "none.wav") == f"{tmp_path}/none.wav does not exist"
    assert sentence(tmp_path).endswith("is a folder, not an audio file")
    assert "cannot be opened" in sentence("nul\0byte.wav")
    if os.geteuid():
        path = write_wav(tmp_path / "a.wav", glide())
        path.chmod(0)
        assert "Permission denied" in sentence(path)


def test_name_is_shown_on_one_line(tmp_path):
    path = tmp_path / "two\nlines \N{GRINNING FACE}.wav"
    path.write_bytes(b"")
    assert sentence(path) == f"{tmp_path}/two\\nlines \N{GRINNING FACE}.wav is empty (0 bytes)"


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize(
    "size", [0, 0xFFFFFFFF, 0xFFFFFFFF - 36, 0x7FFFF000, 0x7FFFFFFF, 0x80000000]
)
def test_sizes_that_a_pipe_leaves_are_not_promises(tmp_path, order, size):
    samples = glide(1234, 2)
    endian = {"little": "LITTLE", "big": "BIG"}[order]
    path = write_wav(tmp_path / "a.wav", samples, endian=endian, subtype="PCM_16")
    whole, _ = read(path)
    data = bytearray(path.read_bytes())
    at = data.index(b"data") + 4
    data[4:8] = data[at : at + 4] = size.to_bytes(4, order)
    path.write_bytes(data)
    got, _ = read(path)
    np.testing.assert_array_equal(got, whole)
    assert path.read_bytes() == data


def test_flac_without_a_length_is_read_to_its_end(tmp_path):
    path = write_wav(tmp_path / "a.flac", glide(5000))
    data = bytearray(path.read_bytes())
    data[21] &= 0xF0
    data[22:26] = bytes(4)
    data[26:42] = bytes(16)
    path.write_bytes(data)
    assert len(read(path)[0]) == 5000


@given(
    spots=st.sets(st.integers(0, 199_999), min_size=1, max_size=5),
    value=st.sampled_from([math.nan, math.inf, -math.inf]),
    subtype=st.sampled_from(["FLOAT", "DOUBLE"]),
)
@settings(max_examples=10, deadline=None)
def test_every_sample_that_is_not_finite_is_counted(tmp_path_factory, spots, value, subtype):
    samples = np.zeros(200_000)
    samples[list(spots)] = value
    path = tmp_path_factory.mktemp("nan") / "a.wav"
    write_wav(path, samples, subtype=subtype)
    text = sentence(path)
    assert f" {len(spots)} sample" in text
    assert f"first at {min(spots) / RATE:.3f} s" in text


# Streams and long files -------------------------------------------------------------------------


def test_a_stream_and_a_named_pipe_are_read(tmp_path):
    path = write_wav(tmp_path / "a.wav", glide())
    whole, _ = read(path)
    with open_reader(io.BytesIO(path.read_bytes())) as file:
        assert file.name == "standard input"
        np.testing.assert_array_equal(np.concatenate(list(file.blocks())), whole)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    feeder = threading.Thread(target=pipe.write_bytes, args=(path.read_bytes(),))
    feeder.start()
    np.testing.assert_array_equal(read(pipe)[0], whole)
    feeder.join()


def test_a_long_file_takes_no_more_memory_than_a_short_one(tmp_path):
    def peak(seconds: int) -> int:
        path = tmp_path / f"{seconds}.wav"
        with open_writer(path, RATE, 2) as writer:
            for _ in range(seconds):
                writer.write(glide(RATE, 2))
        tracemalloc.start()
        with open_reader(path) as file:
            assert sum(map(len, file.blocks())) == seconds * RATE
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    assert peak(240) < 1.2 * peak(30)


# Resampling -------------------------------------------------------------------------------------


@given(
    samples=st.integers(0, 3000),
    rates=st.tuples(*[st.sampled_from([8000, 11025, 16000, 22050, 44100, 48000, 96000])] * 2),
    channels=st.sampled_from([None, 1, 2, 6]),
)
@settings(max_examples=60, deadline=None)
def test_resampling_gives_the_rounded_length(samples, rates, channels):
    shape = (samples,) if channels is None else (samples, channels)
    result = resample(np.zeros(shape, np.float32), *rates)
    assert result.shape == (round(samples * rates[1] / rates[0]), *shape[1:])
    assert result.dtype == np.float32


@pytest.mark.parametrize(("before", "after"), [(8000, 16000), (44100, 16000), (16000, 48000)])
def test_resampling_keeps_time(before, after):
    def pulse(rate: int) -> np.ndarray:
        t = np.arange(rate) / rate - 0.5
        return (np.exp(-((t / 0.002) ** 2)) * np.cos(2 * np.pi * 800 * t)).astype(np.float32)

    np.testing.assert_allclose(resample(pulse(before), before, after), pulse(after), atol=2e-3)


def test_resampling_refuses_a_rate_that_is_not_positive():
    with pytest.raises(AlphaMFError, match="must be positive, not 8000 and 0"):
        resample(np.zeros(3, np.float32), 8000, 0)


def test_rates_that_are_none_of_sound_are_refused(tmp_path):
    path = tmp_path / "a.wav"
    for rate in (1, 999, 768_001, 2**31 - 1):
        soundfile.write(path, glide(100), rate)
        assert f"has a sampling rate of {rate} Hz" in sentence(path)
    for rate in (1000, 768_000):
        soundfile.write(path, glide(100), rate)
        assert len(read(path)[0]) == 100
