"""Files that hold more than their header promises: all of it is read, or what is left out is said.

Of every format: a file that another one follows, and counts in headers that are too low or too
high. Either all samples come back, or one sentence says how many seconds are missing.
"""

import re
import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import soundfile

from alphamf.audio import formats
from alphamf.audio.file_pieces import Scan
from alphamf.audio.ogg import checksum
from alphamf.audio.opening import Sound
from alphamf.audio.reader import open_reader, read
from alphamf.audio.writer import open_writer
from alphamf.errors import AlphaMFError
from tests.support import claps
from tests.support.glides import glide

READ_ONLY = [("SVX", "PCM_16")]
EVERY = [(form.name, s) for form in formats.FORMATS.values() for s in form.subtypes] + READ_ONLY
DEFAULTS = [(form.name, form.subtypes[0]) for form in formats.FORMATS.values()] + READ_ONLY
DEFAULTS += [("OGG", "OPUS"), ("CAF", "ALAC_16")]


def rate_of(form: str, subtype: str) -> int:
    return 8000 if subtype == "AMR_NB" or form == "WVE" else 48000 if subtype != "PCM_16" else 16000


def written(path: Path, form: str, subtype: str, seconds: float, channels: int = 1) -> bytes:
    """Return a file of a format."""
    rate = rate_of(form, subtype)
    if form in formats.FORMATS:
        with open_writer(path, rate, channels, format=form, subtype=subtype) as file:
            file.write(glide(round(seconds * rate), channels, rate))
    else:
        soundfile.write(path, glide(round(seconds * rate), rate=rate), rate, subtype, format=form)
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
    with open_reader(path) as file:
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
    with pytest.raises(AlphaMFError, match=r"continues with a recording of .* after 1\.[56]\d s"):
        read(path)


def test_there_is_a_most_of_recordings_in_a_file(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(written(path, "AU", "PCM_16", 0.001) * 10_001)
    with pytest.raises(AlphaMFError, match="holds more than 10000 recordings"):
        read(path)


def test_a_stream_that_changes_its_codec_is_read_whole(tmp_path):
    """Vorbis, then Opus, as in a stream of a radio station."""
    parts, data = [], b""
    for subtype in ("VORBIS", "OPUS"):
        data += written(tmp_path / "a", "OGG", subtype, 1.0)
        parts.append(read(tmp_path / "a")[0])
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
    ("SVX", "PCM_16"): Count(b"BODY", 4, ">I"),
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
        soundfile.write(path, glide(48000, rate=16000), 16000, subtype, format=form)
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
        assert change == "maximal" and "is truncated" in str(error)
        return
    if isinstance(got, np.ndarray):
        assert len(got) >= len(whole)
        np.testing.assert_array_equal(got[: len(whole)], whole)
    else:
        assert got == pytest.approx(len(whole) / rate * (1 if change == "zero" else 0.5), abs=0.1)


def test_mp3_of_differing_bit_rates_without_a_header_is_read_whole(tmp_path):
    """Without a count, libsndfile takes the first frame's bit rate for that of all."""
    path = tmp_path / "a"
    sound = glide(320_000, rate=16000) * np.repeat([1, 0.0], 160_000)[:, None].astype(np.float32)
    options = {"bitrate_mode": "VARIABLE", "compression_level": 0.5}
    with soundfile.SoundFile(path, "w", 16000, 1, format="MP3", **options) as file:
        file.write(sound)
    whole = path.read_bytes()
    assert b"Xing" in whole[:100]
    start = whole.index(b"\xff\xf3", 4)
    path.write_bytes(whole[start:])
    assert 0 <= len(read(path)[0]) - len(sound) < 2 * 1152


@pytest.mark.parametrize(
    ("between", "ending"), [(b"", b""), (b"TAG" + bytes(125), b"TAG" + bytes(125))]
)
def test_two_mp3_files_with_tags_between_are_two(tmp_path, between, ending):
    path = tmp_path / "a"
    data = written(path, "MP3", "MPEG_LAYER_III", 1)
    tag = b"ID3\x04\0\0\0\0\x02\0" + bytes(256)
    path.write_bytes(tag + data + between + tag + data + ending)
    assert len(read(path)[0]) == 2 * 48000


@pytest.mark.parametrize("change", ["half", "zero"])
def test_a_nist_header_that_counts_wrong(tmp_path, change):
    path = tmp_path / "a"
    data = written(path, "NIST", "PCM_16", 3)
    number = {"half": b"24000", "zero": b"00000"}[change]
    assert data.count(b"sample_count -i 48000") == 1
    path.write_bytes(data.replace(b"sample_count -i 48000", b"sample_count -i " + number))
    assert len(outcome(path)) == 48000


@pytest.mark.parametrize("subtype", ["VORBIS", "OPUS"])
def test_an_ogg_stream_that_counts_back_is_said(tmp_path, subtype):
    path = tmp_path / "a"
    data = bytearray(written(path, "OGG", subtype, 10))
    last = data.rindex(b"OggS")
    (count,) = struct.unpack_from("<q", data, last + 6)
    struct.pack_into("<q", data, last + 6, count // 4)
    data[last + 22 : last + 26] = bytes(4)
    data[last + 22 : last + 26] = checksum(bytes(data[last:])).to_bytes(4, "little")
    path.write_bytes(data)
    assert 4 < outcome(path) < 7.6


def test_zeros_tags_and_chunks_after_the_samples_are_no_sound(tmp_path):
    path = tmp_path / "a"
    data = written(path, "WAV", "PCM_24", 0.9376)  # an odd number of bytes
    whole = read(path)[0]
    odd = data[:40] + struct.pack("<I", 45003) + data[44 : 44 + 45003]
    ends = [bytes(5000), b"TAG" + b"x" * 1000, b"ID3" + b"y" * 500, b"\xff" * 20]
    ends += [
        b"LIST" + struct.pack("<I", 4) + b"INFO",
        b"id3 " + struct.pack("<I", 9999) + b"x" * 99,
    ]
    for end in ends:
        path.write_bytes(data + end)
        np.testing.assert_array_equal(read(path)[0], whole)
        path.write_bytes(odd + end)  # without the byte that pads an odd length
        assert len(read(path)[0]) == 15001


# More than 4 GiB --------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0xFFFFFFFF, 0, 0x7FFFFFFF, "wrapped"])
@pytest.mark.parametrize("after", [b"", b"LIST" + struct.pack("<I", 4) + b"INFO"])
def test_wav_of_more_than_4_gib_is_read_to_its_end(tmp_path, size, after):
    """Read its last samples alone, as libsndfile finds them."""
    path = tmp_path / "a"
    data = bytearray(written(path, "WAV", "PCM_16", 1, 2)[:44])
    length = 5 * 2**30 + 96
    size = length % 2**32 if size == "wrapped" else size
    if after and size != length % 2**32:
        pytest.skip("nothing says where the samples end")
    data[4:8] = data[40:44] = struct.pack("<I", size)
    end = np.arange(-12, 12, dtype="<i2").tobytes()
    with path.open("wb") as file:
        file.write(data)
        file.seek(44 + length - len(end))
        file.write(end + after)
    with Sound(path, "a") as sound:
        assert sound.frames == length // 4
        assert (sound.samplerate, sound.subtype) == (16000, "PCM_16")
        sound._file.seek(sound.frames - 12)
        np.testing.assert_array_equal(sound.read(20).ravel() * 32768, np.arange(-12, 12))


@pytest.mark.parametrize("size", [0xFFFFFFFF, 2**30])
def test_aiff_of_more_than_4_gib_is_said_to_be_cut(tmp_path, size):
    path = tmp_path / "a"
    data = bytearray(written(path, "AIFF", "PCM_16", 1))
    at = data.index(b"SSND") + 4
    data[at : at + 4] = struct.pack(">I", size)
    with path.open("wb") as file:
        file.write(data)
        for place in (2**30 + 4096, 2**32 + 4096, 5 * 2**30):
            file.seek(place)
            file.write(b"\1")
    with path.open("rb") as file:
        layout = formats.check(Scan(file))
    assert layout.spare == pytest.approx(5 * 2**30 - min(size, 0xFFFFFFFE), abs=200)


# Time and sums ----------------------------------------------------------------------------------


def clusters(path: Path, video: bool) -> tuple[bytearray, list[int]]:
    """Return a Matroska file of 4 s, and where the time stamps of its clusters are."""
    kind, options = claps.Sound("pcm_s16le", "s16", 8000), {"cluster_time_limit": "900"}
    picture = "mpeg4" if video else None
    claps.make(path, "matroska", kind, video=picture, content=glide(32000), options=options)
    data = bytearray(path.read_bytes())
    found = re.finditer(rb"\x1f\x43\xb6\x75.{8}\xe7\x82", data, re.DOTALL)
    return data, [match.end() for match in found]


@pytest.mark.parametrize("video", [False, True])
def test_time_that_starts_anew_loses_no_sound(tmp_path, video):
    path = tmp_path / "a.mkv"
    data, places = clusters(path, video)
    whole = read(path)[0]
    assert len(whole) == 32000
    later = [at for at in places if struct.unpack_from(">H", data, at)[0] >= 1800]
    first = struct.unpack_from(">H", data, later[0])[0]
    for at in later:
        struct.pack_into(">H", data, at, struct.unpack_from(">H", data, at)[0] - first)
    path.write_bytes(data)
    got = outcome(path)
    if video:
        assert got == pytest.approx(4 - first / 1000, abs=0.01)
    else:
        np.testing.assert_array_equal(got, whole)


def fragments(path: Path, seconds: float) -> list[tuple[bytes, bytes]]:
    """Return the atoms of a fragmented MP4, each with its name."""
    flags = "frag_keyframe+empty_moov+default_base_moof+skip_trailer"
    options = {"movflags": flags, "frag_duration": "500000"}
    sound = glide(round(seconds * 48000), rate=48000)
    claps.make(path, "mp4", claps.Sound(), video=None, content=sound, options=options)
    data, found = path.read_bytes(), []
    while data:
        length = int.from_bytes(data[:4], "big")
        found.append((data[4:8], data[:length]))
        data = data[length:]
    return found


@pytest.mark.parametrize("whole", [True, False])
def test_fragments_of_two_recordings_are_read(tmp_path, whole):
    """Where the second has its own header, and where its fragments alone follow the first."""
    path = tmp_path / "a"
    expected, data = 0, b""
    for seconds in (4, 3):
        atoms = fragments(path, seconds)
        assert len(atoms) > 8
        expected += len(read(path)[0])
        first = not data
        data += b"".join(a for kind, a in atoms if whole or first or kind not in (b"ftyp", b"moov"))
    path.write_bytes(data)
    assert len(read(path)[0]) == pytest.approx(expected, abs=2048)


@pytest.mark.parametrize("subtype", ["PCM_S8", "PCM_16", "PCM_24"])
def test_a_wrong_sum_of_a_flac_file_is_said(tmp_path, subtype):
    path = tmp_path / "a"
    data = bytearray(written(path, "FLAC", subtype, 1, 2))
    with open_reader(path) as file:
        assert file.note is None
    data[26] ^= 1
    path.write_bytes(data)
    with open_reader(path) as file:
        assert file.note == "its samples do not match the MD5 sum in its header"
        assert file.cut is None
    data[26:42] = bytes(16)  # the sum is not known
    path.write_bytes(data)
    with open_reader(path) as file:
        assert file.note is None


@pytest.mark.parametrize("form", sorted(formats.UNCHECKED))
def test_formats_whose_length_is_not_checked_are_refused(tmp_path, form):
    subtype = {"VOC": "PCM_U8", "WVE": "ALAW"}.get(form, "PCM_16")
    soundfile.write(tmp_path / "a", glide(8000), 8000, subtype, format=form)
    with pytest.raises(AlphaMFError, match=f"a is {form}, whose length alphamf cannot check"):
        read(tmp_path / "a")
