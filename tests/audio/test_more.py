"""Files that hold more than their header promises: all of it is read, or what is left out is said.

Of every format: a file that another one follows, and counts in headers that are too low or too
high. Either all samples come back, or one sentence says how many seconds are missing.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import soundfile

from alphamf.audio import formats
from alphamf.audio.reader import open_reader, read
from alphamf.audio.writer import open_writer
from alphamf.errors import AlphaMFError

READ_ONLY = [(form, "PCM_16") for form in ("AVR", "SVX", "MPC2K", "MAT4", "MAT5", "SDS")]
READ_ONLY += [("VOC", "PCM_U8"), ("WVE", "ALAW")]
EVERY = [(form.name, s) for form in formats.FORMATS.values() for s in form.subtypes] + READ_ONLY
DEFAULTS = [(form.name, form.subtypes[0]) for form in formats.FORMATS.values()] + READ_ONLY
DEFAULTS += [("OGG", "OPUS"), ("CAF", "ALAC_16")]


def tone(seconds: float, rate: int, channels: int = 1) -> np.ndarray:
    t = np.arange(round(seconds * rate))[:, None] / rate
    rng = np.random.default_rng(1)
    sound = 0.4 * np.sin(2 * np.pi * (300 * t + 400 * t**2)) + 0.02 * rng.standard_normal(t.shape)
    return np.repeat(sound, channels, 1).astype(np.float32)


def rate_of(form: str, subtype: str) -> int:
    return 8000 if subtype == "AMR_NB" or form == "WVE" else 48000 if subtype != "PCM_16" else 16000


def written(path: Path, form: str, subtype: str, seconds: float, channels: int = 1) -> bytes:
    """Return a file of a format."""
    rate = rate_of(form, subtype)
    if form in formats.FORMATS:
        if formats.FORMATS[form].muxer:
            pytest.importorskip("av", reason="needs the extra media")
        with open_writer(path, rate, channels, format=form, subtype=subtype) as file:
            file.write(tone(seconds, rate, channels))
    else:
        soundfile.write(path, tone(seconds, rate), rate, subtype, format=form)
    return path.read_bytes()


def outcome(path: Path) -> np.ndarray | float:
    """Return all samples, or the seconds that a sentence says are left out."""
    try:
        return read(path)[0]
    except AlphaMFError as error:
        text = str(error)
    assert "\n" not in text
    said = re.search(r" (\d+\.\d\d) s are left out$", text)
    assert said, text
    if "after the 0.00 s" in text:
        return float(said[1])
    with open_reader(path, salvage=True) as file:
        assert text in file.cut
        assert sum(map(len, file.blocks(999))) == file.frames
    return float(said[1])


@pytest.mark.parametrize(("form", "subtype"), EVERY)
def test_a_second_file_after_the_first_is_read_too(tmp_path, form, subtype):
    path = tmp_path / "a"
    parts, data = [], b""
    for seconds in (1.5, 0.75):
        data += written(path, form, subtype, seconds)
        parts.append(read(path)[0])
    path.write_bytes(data)
    got = outcome(path)
    assert isinstance(got, np.ndarray)
    assert len(got) == sum(map(len, parts))
    if form != "ADTS":  # its decoder goes on, and fades the first file into the second
        np.testing.assert_array_equal(got, np.concatenate(parts))
    with open_reader(path) as file:
        assert sum(map(len, file.blocks(777))) == len(got)
        assert file.cut is None


@pytest.mark.parametrize("other", ["rate", "channels"])
@pytest.mark.parametrize(("form", "subtype"), [d for d in DEFAULTS if d not in READ_ONLY])
def test_a_second_file_of_another_kind_is_said(tmp_path, monkeypatch, form, subtype, other):
    path = tmp_path / "a"
    data = written(path, form, subtype, 1.5)
    if subtype == "AMR_NB" or (form, other) == ("WEBM", "rate"):
        pytest.skip("there is no other")
    if other == "rate":
        monkeypatch.setattr(f"{__name__}.rate_of", lambda *_: 24000)
    data += written(path, form, subtype, 0.75, 2 if other == "channels" else 1)
    path.write_bytes(data)
    assert outcome(path) == pytest.approx(0.75, abs=0.07)
    with pytest.raises(AlphaMFError, match=r"goes on with a recording of .* after 1\.[56]\d s"):
        read(path)


def test_a_stream_that_changes_its_codec_is_read_whole(tmp_path):
    """Vorbis, then Opus, then FLAC in Ogg, as radio stations do."""
    parts, data = [], b""
    for subtype in ("VORBIS", "OPUS"):
        data += written(tmp_path / "a", "OGG", subtype, 1.0)
        parts.append(read(tmp_path / "a")[0])
        soundfile.write(tmp_path / "a", tone(1.0, 48000), 48000, subtype, format="OGG")
    (tmp_path / "a").write_bytes(data)
    np.testing.assert_array_equal(read(tmp_path / "a")[0], np.concatenate(parts))


# Counts of headers ------------------------------------------------------------------------------


class Count(NamedTuple):
    """A number in a header: after which bytes, how far from their start, and how it is packed."""

    after: bytes
    offset: int
    form: str


COUNTS = {
    ("WAV", "PCM_16"): Count(b"data", 4, "<I"),
    ("WAV", "IMA_ADPCM"): Count(b"data", 4, "<I"),
    ("WAVEX", "PCM_24"): Count(b"data", 4, "<I"),
    ("RF64", "PCM_16"): Count(b"ds64", 16, "<Q"),
    ("W64", "FLOAT"): Count(b"data\xf3\xac\xd3\x11", 16, "<Q"),
    ("AIFF", "PCM_16"): Count(b"SSND", 4, ">I"),
    ("AIFF", "PCM_24"): Count(b"COMM", 10, ">I"),
    ("AU", "PCM_16"): Count(b".snd", 8, ">I"),
    ("CAF", "PCM_16"): Count(b"data", 4, ">q"),
    ("CAF", "ALAC_16"): Count(b"pakt", 20, ">q"),
    ("FLAC", "PCM_16"): Count(b"fLaC", 22, ">I"),
    ("MP3", "MPEG_LAYER_III"): Count(b"Xing", 8, ">I"),
    ("AVR", "PCM_16"): Count(b"2BIT", 26, ">I"),
    ("SVX", "PCM_16"): Count(b"BODY", 4, ">I"),
    ("MPC2K", "PCM_16"): Count(b"\x01\x04", 30, "<I"),
    ("MAT4", "PCM_16"): Count(b"wavedata", -12, "<I"),
    ("MAT5", "PCM_16"): Count(b"wavedata", 12, "<I"),
    ("WVE", "ALAW"): Count(b"ALawSoundFile**\0", 18, ">I"),
    ("MP4", "AAC"): Count(b"mdhd", 20, ">I"),
    ("M4A", "ALAC_16"): Count(b"mvhd", 20, ">I"),
    ("MOV", "PCM_16"): Count(b"tkhd", 24, ">I"),
    ("ASF", "WMAV2"): Count(bytes.fromhex("3626b2758e66cf11a6d900aa0062ce6c"), 16, "<Q"),
    ("MATROSKA", "AAC"): Count(b"\x18\x53\x80\x67", 5, ">Q"),
    ("WEBM", "OPUS"): Count(b"\x44\x89\x88", 3, ">d"),
}
"""A count in each format that has one."""

CHANGES = {"half": lambda n: n / 2, "zero": lambda _: 0, "maximal": lambda _: None}


def packed(form: str, number: float | None) -> bytes:
    """Return a number as a header holds it; None: the largest one."""
    size = struct.calcsize(form)
    if form[1] == "d":
        return struct.pack(form, 1e300 if number is None else number)
    if number is None:
        return b"\x7f\xff" * (size // 2) if form[1] == "q" else b"\xff" * size
    return struct.pack(form, int(number))


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(("form", "subtype"), COUNTS)
def test_a_header_that_counts_wrong_loses_nothing_unsaid(tmp_path, form, subtype, change):
    path = tmp_path / "a"
    if subtype == "IMA_ADPCM":
        soundfile.write(path, tone(3, 16000), 16000, subtype, format=form)
        data = bytearray(path.read_bytes())
    else:
        data = bytearray(written(path, form, subtype, 3))
    whole, rate = read(path)
    count = COUNTS[form, subtype]
    at = data.index(count.after) + count.offset
    (number,) = struct.unpack_from(count.form, data, at)
    assert number
    new = packed(count.form, CHANGES[change](number))
    if form == "MATROSKA":
        at, new = (at, b"\0" + new[1:])
    data[at : at + len(new)] = new
    path.write_bytes(data)
    try:
        got = outcome(path)
    except AssertionError as error:
        text = str(error)
        print(text)
        assert change == "maximal" and "is cut short" in text
        return
    if isinstance(got, np.ndarray):
        assert len(got) >= len(whole)
        np.testing.assert_array_equal(got[: len(whole)], whole)
    else:
        assert got == pytest.approx(len(whole) / rate * (1 if change == "zero" else 0.5), abs=0.1)
