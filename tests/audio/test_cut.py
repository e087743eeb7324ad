"""Files that were cut or that change: refused in a sentence, or read as far as they go."""

import io
import struct
from pathlib import Path

import numpy as np
import pytest
import soundfile

from alphamf.audio import formats
from alphamf.audio.file_pieces import Scan
from alphamf.audio.reader import open_reader, read
from alphamf.errors import AlphaMFError
from tests.support.glides import glide

RATE = 16000
FORMS = ["WAV", "WAVEX", "RF64", "AIFF", "W64", "AU", "NIST", "CAF", "FLAC", "OGG", "MP3"]


def written(path: Path, form: str, frames: int = 40000, **options: object) -> bytes:
    soundfile.write(path, glide(frames, rate=RATE), RATE, format=form, **options)
    return path.read_bytes()


def sentence(path: Path) -> str:
    """Return what is missing, or why nothing can be read."""
    try:
        with open_reader(path) as file:
            return str(file.cut)
    except AlphaMFError as error:
        return str(error)


@pytest.mark.parametrize("share", [0.1, 0.999])
@pytest.mark.parametrize("form", FORMS)
def test_a_file_cut_near_an_end_is_refused(tmp_path, form, share):
    data = written(tmp_path / "a", form)
    (tmp_path / "a").write_bytes(data[: int(len(data) * share)])
    with pytest.raises(AlphaMFError, match=r"truncated|cannot be read as audio"):
        read(tmp_path / "a")


@pytest.mark.parametrize("share", [0.5, 0.97])
@pytest.mark.parametrize("form", [*FORMS, "SVX"])
def test_the_part_that_is_there_can_be_read(tmp_path, capfd, form, share):
    path = tmp_path / "a"
    frames = 160000 if form == "OGG" else 40000  # a page holds a second or two
    data = written(path, form, frames)
    whole = read(path)[0]
    path.write_bytes(data[: int(len(data) * share)])
    with open_reader(path) as file:
        assert "is truncated" in file.cut or "damaged or truncated" in file.cut
        assert file.cut.endswith(f"; using the first {file.frames / RATE:.2f} s")
        got = np.concatenate(list(file.blocks(999)))
    # A header of up to 4 kB is part of the share; Ogg loses a page, FLAC and MP3 a block.
    assert 0.75 * share * frames - 2000 < len(got) < frames
    np.testing.assert_array_equal(got[:-2000], whole[: len(got)][:-2000])
    with pytest.raises(AlphaMFError, match="truncated"):
        read(io.BytesIO(path.read_bytes()))


def test_a_cut_file_without_samples_is_refused(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(written(path, "OGG")[:5000])
    with pytest.raises(AlphaMFError, match="is truncated"), open_reader(path):
        pass


def test_what_comes_before_damage_is_read_and_the_whole_refused(tmp_path):
    data = bytearray(written(tmp_path / "a", "FLAC"))
    whole = read(tmp_path / "a")[0]
    data[len(data) // 2] ^= 0xFF
    (tmp_path / "a").write_bytes(data)
    assert "damaged or truncated" in sentence(tmp_path / "a")
    with open_reader(tmp_path / "a") as file:
        assert "damaged or truncated" in file.cut
        assert 12000 < file.frames < 21000
        assert (np.concatenate(list(file.blocks())) == whole[: file.frames]).all()


@pytest.mark.parametrize("there", [2**16, 2**32 + 2**16])
def test_a_cut_file_of_more_than_4_gib(tmp_path, there):
    """Sizes of 64 bits are promises, whatever they would mean in 32 bits; the file is sparse."""
    path = tmp_path / "a"
    data = bytearray(written(path, "RF64"))
    at = data.index(b"ds64") + 16
    data[at : at + 8] = struct.pack("<Q", 5 * 2**30)
    with path.open("wb") as file:
        file.write(data)
        file.truncate(there)
    promised = f"promises {5 * 2**30} bytes of samples, but it has only {there - 104}"
    with path.open("rb") as file:
        assert str(formats.check(Scan(file)).cut).endswith(promised)


@pytest.mark.parametrize("order", ["LITTLE", "BIG"])
def test_a_length_that_a_pipe_left_open_is_no_promise(tmp_path, order):
    path = tmp_path / "a.au"
    data = bytearray(written(path, "AU", endian=order))
    data[8:12] = b"\xff\xff\xff\xff"
    path.write_bytes(data)
    assert len(read(path)[0]) == 40000
    data = bytearray(written(path, "CAF"))
    at = data.index(b"data") + 4
    data[at : at + 8] = b"\xff" * 8
    path.write_bytes(data)
    assert len(read(path)[0]) == 40000


@pytest.mark.parametrize("form", ["W64", "CAF", "NIST", "AU"])
@pytest.mark.parametrize("byte", range(4, 1100, 41))
def test_a_wrong_byte_of_a_header_ends_in_a_result_or_a_sentence(tmp_path, form, byte):
    data = bytearray(written(tmp_path / "a", form)[:6000])
    data[byte] ^= 0x80
    (tmp_path / "a").write_bytes(data)
    try:
        with open_reader(tmp_path / "a") as file:
            assert sum(map(len, file.blocks())) == file.frames
    except AlphaMFError as error:
        assert str(error).isprintable()


# MP3 --------------------------------------------------------------------------------------------

MODES = [(rate, channels, mode) for rate in (8000, 16000, 22050, 44100, 48000)
         for channels in (1, 2) for mode in ("CONSTANT", "VARIABLE")]  # fmt: skip


@pytest.mark.parametrize(("rate", "channels", "mode"), MODES)
def test_mp3_of_every_kind_is_whole_until_a_byte_is_missing(tmp_path, rate, channels, mode):
    path = tmp_path / "a"
    soundfile.write(path, glide(20000, channels), rate, format="MP3", bitrate_mode=mode)
    data = path.read_bytes()
    assert len(read(path)[0]) == 20000
    path.write_bytes(data[:-1])
    assert "its last MP3 frame is incomplete" in sentence(path)


def test_tags_of_an_mp3_are_no_frames(tmp_path):
    path = tmp_path / "a"
    data = written(path, "MP3")
    first = b"ID3\x04\0\0" + bytes([0, 0, 1, 2]) + bytes(130)
    for tag in (b"TAG" + bytes(125), b"APETAGEX" + bytes(60), bytes(500)):
        path.write_bytes(first + data + tag)
        assert len(read(path)[0]) == 40000
        path.write_bytes(first + data[:-9])
        assert "incomplete" in sentence(path)


def test_an_mp3_cut_between_two_frames_is_known_by_its_header(tmp_path, capfd):
    path = tmp_path / "a"
    data = written(path, "MP3")
    for _ in range(2):
        data = data[: data.rindex(data[:2])]
        path.write_bytes(data)
        assert "frames of MP3" in sentence(path)
    with pytest.raises(AlphaMFError, match=r"frames of MP3, \d+ are there$"):
        read(path)


SPOILT = {
    "streamed": lambda data: data,
    "zeros behind": lambda data: data + bytes(5000),
    "junk before": lambda data: b"junk" * 999 + data,
    "from mid-frame on": lambda data: data[101:],
    "a tag behind": lambda data: data + b"TAG" + bytes(125),
    "a gap": lambda data: data[:3000] + b"\1" * 3000 + data[3000:],
    "cut in a frame": lambda data: data[:-50],
}


@pytest.mark.parametrize("sandbox", ["on", "off"])
@pytest.mark.parametrize("kind", SPOILT)
def test_mp3_that_every_player_plays_is_read_whole(tmp_path, monkeypatch, capfd, kind, sandbox):
    """What no encoder counted has no promise to break; no more than three frames are lost."""
    monkeypatch.setenv("ALPHAMF_SANDBOX", sandbox)
    path = tmp_path / "a"
    data = written(path, "MP3", 48000)
    # Streams lack the header of the encoder.
    path.write_bytes(SPOILT[kind](data[data.index(data[:2], 2) :]))
    with open_reader(path) as file:
        assert (file.cut, file.format) == (None, "MP3")
        assert 48000 - 3 * 1152 <= file.frames <= 48000 + 3 * 1152
        assert sum(map(len, file.blocks())) == file.frames


# Files that change ------------------------------------------------------------------------------


def change(path: Path, what: str) -> None:
    if what == "gone":
        path.unlink()
        return
    samples = glide(40000)
    if what == "other":
        samples[30000] += 0.01
    channels = 2 if what == "channels" else 1
    frames = {"shorter": 20000, "longer": 50000}.get(what, 40000)
    samples = np.resize(samples, (frames, channels))
    soundfile.write(path, samples, RATE, format="WAV")


@pytest.mark.parametrize("what", ["shorter", "longer", "other", "channels", "gone", "same"])
def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path, what):
    path = tmp_path / "a.wav"
    change(path, "same")
    with open_reader(path) as file:
        change(path, what)
        if what == "same":
            assert sum(map(len, file.blocks(3000))) == 40000
            return
        with pytest.raises(AlphaMFError) as refused:
            list(file.blocks(3000))
    text = str(refused.value)
    assert str(path) in text
    assert what == "gone" or "changed while it was being read" in text
    assert (what == "shorter") == ("it had 2.50 s, and now has 1.25 s" in text)


def test_a_file_cut_while_it_is_read_is_refused(tmp_path):
    path = tmp_path / "a.flac"
    data = written(path, "FLAC")
    with open_reader(path) as file:
        blocks = file.blocks(3000)
        next(blocks)
        path.write_bytes(data[: len(data) // 3])
        with pytest.raises(AlphaMFError, match="changed while it was being read"):
            list(blocks)


# Others -----------------------------------------------------------------------------------------


def test_raw_samples_have_no_rate(tmp_path):
    (tmp_path / "a.raw").write_bytes(bytes(1000))
    assert "whose rate is not stored in the file" in sentence(tmp_path / "a.raw")


def test_more_channels_than_asked_for(tmp_path):
    path = tmp_path / "a.wav"
    soundfile.write(path, glide(100, 5), RATE)
    with open_reader(path, max_channels=5) as file:
        assert file.channels == 5
    with pytest.raises(AlphaMFError, match="has 5 channels, more than 4"):
        open_reader(path, max_channels=4).__enter__()
