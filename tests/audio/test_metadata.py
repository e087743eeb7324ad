"""Tags, pictures, chunks and bit rates: what an output keeps of its input, field by field."""

import struct
import sys
import time
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import av
import mutagen
import numpy as np
import pytest
import soundfile

from alphamf.audio import metadata as metadata_chunks
from alphamf.audio import tags
from alphamf.audio.reader import open_reader
from alphamf.audio.writer import destination, open_writer
from alphamf.errors import AlphaMFError
from tests.support.claps import clicks

RATE = 16000
LINE = "denoised by alphamf 0.1.0"


def noise(seconds: float = 1.0, channels: int = 1, rate: int = RATE) -> np.ndarray:
    rng = np.random.default_rng(5)
    return 0.1 * rng.standard_normal((round(seconds * rate), channels)).astype(np.float32)


def copied(
    source: Path, output: Path | None = None, history: str | None = None, note: str | None = None
) -> Path:
    """Write what is read, as `alphamf denoise` does; `note` is in what is said of tags."""
    derived = output is None
    output = output or source.with_stem(f"{source.stem}.out")
    with open_reader(source) as reader:
        target = destination(str(output), reader, derived=derived)
        form = {"format": target.format, "subtype": target.subtype}
        with open_writer(
            output, reader.rate, reader.channels, **form, original=reader, history=history
        ) as writer:
            for block in reader.blocks():
                writer.write(block)
    assert note is None or (note in writer.lost if note else not writer.lost)
    return output


# Chunks -----------------------------------------------------------------------------------------

BEFORE = {
    b"bext": bytes(range(256)) * 2 + bytes(90) + b"A=PCM,F=16000,W=16,M=mono\r\n",
    b"iXML": b"<BWFXML><PROJECT>odd</PROJECT></BWFXML>",
    b"JUNK": bytes(28),
}
AFTER = {
    b"cue ": struct.pack("<I6I", 1, 1, 800, 0x61746164, 0, 0, 800),
    b"LIST": b"INFOINAM\x06\0\0\0Talk\0\0ICMT\x02\0\0\0x\0",
    b"smpl": bytes(36),
    b"id3 ": b"ID3\x04\0\0\0\0\0\0",
    b"_own": b"any",
}


def chunk(kind: bytes, data: bytes, order: str) -> bytes:
    return struct.pack(f"{order}4sI", kind, len(data)) + data + b"\0" * (len(data) % 2)


def chunks(data: bytes, order: str) -> list[tuple[bytes, bytes]]:
    found, at = [], 12
    while at < len(data):
        kind, size = struct.unpack(f"{order}4sI", data[at : at + 8])
        found.append((kind, data[at + 8 : at + 8 + size]))
        at += 8 + size + size % 2
    assert at == len(data) == struct.unpack(f"{order}I", data[4:8])[0] + 8
    return found


def with_chunks(path: Path, form: str, subtype: str, frames: int = RATE) -> None:
    """Write a file with chunks before and after its samples."""
    order, samples = ("<", b"data") if form == "WAV" else (">", b"SSND")
    soundfile.write(path, noise()[:frames], RATE, subtype, format=form)
    data = path.read_bytes()
    at = data.index(samples)
    parts = [
        b"".join(chunk(kind, body, order) for kind, body in group.items())
        for group in (BEFORE, AFTER)
    ]
    data = data[:at] + parts[0] + data[at:] + b"\0" * (len(data) % 2) + parts[1]
    path.write_bytes(data[:4] + struct.pack(f"{order}I", len(data) - 8) + data[8:])


@pytest.mark.parametrize(
    ("form", "subtype", "frames"),
    [
        ("WAV", "PCM_16", RATE),
        ("WAV", "PCM_U8", 4001),
        ("WAV", "FLOAT", 4000),
        ("AIFF", "PCM_16", 99),
    ],
)
def test_chunks_are_kept_byte_for_byte_where_they_were(tmp_path, form, subtype, frames):
    source = tmp_path / "a.wav"
    with_chunks(source, form, subtype, frames)
    order, samples = ("<", b"data") if form == "WAV" else (">", b"SSND")
    old, new = (chunks(path.read_bytes(), order) for path in (source, copied(source)))
    own = [samples, b"fmt ", b"fact", b"PEAK", b"COMM", b"JUNK", b"FVER"]
    assert [c for c in new if c[0] not in own] == [c for c in old if c[0] not in own]
    kinds = [kind for kind, _ in new]
    assert kinds.index(b"bext") < kinds.index(samples) < kinds.index(b"LIST")
    with open_reader(source) as one, open_reader(tmp_path / "a.out.wav") as two:
        assert (one.frames, one.checksum) == (two.frames, two.checksum)


def test_a_line_in_the_history_of_a_wav_only_when_asked_for(tmp_path):
    source = tmp_path / "a.wav"
    with_chunks(source, "WAV", "PCM_16")
    plain = dict(chunks(copied(source).read_bytes(), "<"))
    noted = dict(chunks(copied(source, history=LINE).read_bytes(), "<"))
    assert plain[b"bext"] == BEFORE[b"bext"]
    assert noted[b"bext"] == BEFORE[b"bext"] + f"T={LINE}\r\n".encode()
    assert {k: v for k, v in noted.items() if k != b"bext"} == {
        k: v for k, v in plain.items() if k != b"bext"
    }
    soundfile.write(tmp_path / "b.wav", noise(), RATE)
    assert list(dict(chunks(copied(tmp_path / "b.wav").read_bytes(), "<"))) == [b"fmt ", b"data"]
    new = dict(chunks(copied(tmp_path / "b.wav", history=LINE).read_bytes(), "<"))
    assert new[b"bext"] == bytes(602) + f"T={LINE}\r\n".encode()


def test_chunks_of_a_wav_that_was_cut_are_no_trap(tmp_path):
    source = tmp_path / "a.wav"
    with_chunks(source, "WAV", "PCM_16")
    source.write_bytes(source.read_bytes()[:-30])
    assert {k for k, _ in chunks(copied(source).read_bytes(), "<")} >= {b"bext", b"LIST"}


@pytest.mark.parametrize("form", ["WAV", "AIFF"])
@pytest.mark.parametrize("first", [bytes(4000), b"abcd\0\0\0\0" * 500])
def test_samples_of_a_length_that_was_left_open_are_no_chunks(tmp_path, form, first):
    source = tmp_path / "a.wav"
    with_chunks(source, form, "PCM_16")
    order, samples = ("<", b"data") if form == "WAV" else (">", b"SSND")
    data = source.read_bytes()
    at, end = data.index(samples) + 4, data.index(b"cue ")
    begin = at + (4 if form == "WAV" else 12)  # behind offset and block size
    source.write_bytes(data[:at] + bytes(4) + data[at + 4 : begin] + first + data[begin:end])
    new = dict(chunks(copied(source).read_bytes(), order))
    assert set(new) - {b"fmt ", b"COMM", samples} == {b"bext", b"iXML"}
    assert new[samples].endswith(data[begin:end])
    with open_reader(source) as one, open_reader(tmp_path / "a.out.wav") as two:
        assert (one.frames, one.checksum) == (two.frames, two.checksum)


# Tags -------------------------------------------------------------------------------------------

PICTURE = bytes(range(256)) * 30


def fields(path: Path) -> dict[str, Any]:
    """Return all fields of a file's tags, and its pictures and cue sheet."""
    file = mutagen.File(path)
    tags = file.tags or {}
    found = {key: repr(tags[key]) for key in tags.keys()}
    for name in ("pictures", "cuesheet"):
        if hasattr(file, name):
            value = getattr(file, name)
            found[name] = repr([p.write() for p in value] if name == "pictures" else value)
    return found


def tag_mp3(path: Path, version: int) -> None:
    from mutagen.id3 import APIC, COMM, ID3, PRIV, TIT2, TPE1, TXXX, USLT

    tags = ID3()
    tags.add(TIT2(encoding=1, text=["Räume"]))
    tags.add(TPE1(encoding=1, text=["A"]))
    tags.add(COMM(encoding=1, lang="deu", desc="d", text=["c"]))
    tags.add(USLT(encoding=1, lang="eng", desc="", text="words"))
    tags.add(TXXX(encoding=1, desc="OWN", text=["v"]))
    tags.add(PRIV(owner="me", data=b"\1\2"))
    tags.add(APIC(encoding=1, mime="image/png", type=3, desc="", data=PICTURE))
    tags.save(path, v2_version=version, v1=2)


@pytest.mark.parametrize("version", [3, 4])
def test_mp3_keeps_its_tags_byte_for_byte(tmp_path, version):
    source = tmp_path / "a.mp3"
    soundfile.write(source, noise(), RATE)
    plain = len(source.read_bytes())
    tag_mp3(source, version)
    output = copied(source)
    old, new = source.read_bytes(), output.read_bytes()
    head = len(old) - plain - 128
    assert new[:head] == old[:head] and new[-128:] == old[-128:]
    assert fields(output) == fields(source) and len(fields(source)) == 7
    noted = fields(copied(source, history=LINE))
    assert LINE in noted.pop("TXXX:HISTORY")
    assert {k.upper() for k in noted} == {k.upper() for k in fields(source)}
    with open_reader(source) as one, open_reader(output) as two:
        assert one.frames == two.frames


def tag_flac(path: Path) -> None:
    from mutagen.flac import FLAC, CueSheet, CueSheetTrack, Picture

    file = FLAC(path)
    file["title"], file["artist"] = "Räume", ["A", "B"]
    file["x-own"] = "y"
    picture = Picture()
    picture.data, picture.mime, picture.type = PICTURE, "image/png", 3
    file.add_picture(picture)
    file.cuesheet = CueSheet(None)
    file.cuesheet.tracks.append(CueSheetTrack(170, 400))
    file.save()


def tag_ogg(path: Path) -> None:
    file = mutagen.File(path)
    file["title"], file["artist"], file["x-own"] = "Räume", ["A", "B"], "y"
    file["metadata_block_picture"] = "AAAA" * 30_000  # over several pages
    file.save()


def tag_m4a(path: Path) -> None:
    from mutagen.mp4 import MP4, MP4Cover, MP4FreeForm

    file = MP4(path)
    if file.tags is None:
        file.add_tags()
    file["\xa9nam"], file["\xa9ART"], file["trkn"] = "Räume", ["A", "B"], [(3, 9)]
    file["tmpo"], file["cpil"] = [120], True
    file["----:com.apple.iTunes:OWN"] = [MP4FreeForm(b"v")]
    file["----:com.apple.iTunes:iTunSMPB"] = [MP4FreeForm(b" 00000000 00000840 000001C0")]
    file["covr"] = [MP4Cover(PICTURE, MP4Cover.FORMAT_PNG)]
    file.save()


def write(path: Path, **options: Any) -> None:
    form = {".flac": ("FLAC", "PCM_16"), ".ogg": ("OGG", "VORBIS"), ".opus": ("OGG", "OPUS"),
            ".m4a": ("M4A", "AAC"), ".wma": ("ASF", "WMAV2"), ".mp3": ("MP3", "MPEG_LAYER_III"),
            ".mka": ("MATROSKA", "AAC")}[path.suffix]  # fmt: skip
    with open_writer(path, RATE, 1, format=form[0], subtype=form[1], **options) as writer:
        writer.write(noise())


@pytest.mark.parametrize(
    ("suffix", "tag", "history"),
    [
        (".flac", tag_flac, "history"),
        (".ogg", tag_ogg, "history"),
        (".opus", tag_ogg, "history"),
        (".m4a", tag_m4a, "----:com.apple.iTunes:HISTORY"),
    ],
)
def test_tags_are_kept_field_by_field(tmp_path, suffix, tag, history):
    source = tmp_path / f"a{suffix}"
    write(source)
    tag(source)
    wanted = fields(source)
    # What says how long the input's encoder delayed the sound is no longer true.
    wanted.pop("----:com.apple.iTunes:iTunSMPB", None)
    output = copied(source)
    assert fields(output) == wanted and len(wanted) >= 4
    first = output.read_bytes()
    noted = fields(copied(source, history=LINE))
    assert LINE in noted.pop(history) and noted == wanted
    with open_reader(source) as one, open_reader(output) as two:
        assert one.frames == two.frames
    assert copied(source).read_bytes() == first


COMMON = {
    "title": "Räume", "artist": "A", "album": "B", "albumartist": "C", "date": "2020-01-02",
    "genre": "Speech", "tracknumber": "3/9", "discnumber": "1/2", "composer": "D",
    "copyright": "E", "comment": "F", "description": "G", "isrc": "DEA621900001",
    "language": "deu",
}  # fmt: skip


@pytest.mark.parametrize(
    ("other", "key", "value"),
    [
        (".mp3", "COMM::XXX", "F"),
        (".ogg", "comment", "F"),
        (".m4a", "\xa9wrt", "D"),
        (".wma", "Author", "A"),
    ],
)
def test_every_common_field_goes_into_another_format_and_back(tmp_path, other, key, value):
    source = tmp_path / "a.flac"
    write(source)
    file = mutagen.File(source)
    file.update(COMMON)
    file.save()
    there = copied(source, tmp_path / f"b{other}")
    assert mutagen.File(there).tags[key][0] == value
    assert mutagen.File(copied(there, tmp_path / "c.flac")).tags == file.tags


def test_a_line_in_matroska_and_a_sentence_where_it_has_no_place(tmp_path):
    write(tmp_path / "a.mka", history=LINE)
    with av.open(str(tmp_path / "a.mka")) as file:
        assert file.metadata["HISTORY"] == LINE
    with (
        pytest.raises(AlphaMFError, match="`tag` is not supported for AU"),
        open_writer(tmp_path / "a.au", RATE, 1, format="AU", history=LINE),
    ):
        pass


# Bit rates --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["CONSTANT", "AVERAGE", "VARIABLE"])
@pytest.mark.parametrize("level", [0.2, 0.7])
def test_mp3_keeps_its_bit_rate(tmp_path, mode, level):
    source = tmp_path / "a.mp3"
    sound = noise(3, 2, 44100) + clicks(44100, 2, 3.0)
    soundfile.write(source, sound, 44100, compression_level=level, bitrate_mode=mode)
    ratio = copied(source).stat().st_size / source.stat().st_size
    assert ratio == pytest.approx(1, abs=0.02 if mode == "CONSTANT" else 0.15)


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_opus_keeps_its_bit_rate_whatever_the_cover_weighs(tmp_path, level):
    source = tmp_path / "a.opus"
    soundfile.write(source, noise(4), RATE, "OPUS", format="OGG", compression_level=level)
    size = source.stat().st_size
    tag_ogg(source)
    output = copied(source)
    assert output.stat().st_size - (source.stat().st_size - size) == pytest.approx(size, rel=0.1)


# What is lost -----------------------------------------------------------------------------------


def test_common_fields_that_do_not_fit_are_named(tmp_path):
    from mutagen.id3 import COMM, TRCK

    source, output = tmp_path / "a.mp3", tmp_path / "b.m4a"
    write(source)
    file = mutagen.File(source)
    file.add_tags()
    file.tags.add(TRCK(encoding=3, text="the third"))
    file.tags.add(COMM(encoding=3, lang="deu", desc="", text="spoken"))
    file.tags.add(COMM(encoding=3, lang="eng", desc="iTunNORM", text="000001F0"))
    file.save()
    copied(source, output, note="these tags were not copied: tracknumber")
    assert mutagen.File(output)["\xa9cmt"] == ["spoken"]


def test_without_mutagen_ogg_is_written_without_tags(tmp_path, monkeypatch):
    write(tmp_path / "a.ogg")
    monkeypatch.setenv("ALPHAMF_SANDBOX", "off")
    monkeypatch.setitem(sys.modules, "mutagen", None)
    tags.prepare.cache_clear()
    copied(tmp_path / "a.ogg", note="tags were not copied because mutagen is not installed")


# Tags of strangers --------------------------------------------------------------------------------


def sync_safe(number: int) -> bytes:
    return bytes(number >> k & 127 for k in (21, 14, 7, 0))


def mp3_with_frame(path: Path, frame: bytes, count: int = 1) -> None:
    soundfile.write(path, noise(), RATE)
    tag = b"ID3\x04\0\0" + sync_safe(count * len(frame)) + count * frame
    path.write_bytes(tag + path.read_bytes())


def compressed(text: bytes) -> bytes:
    """Return a compressed title."""
    body = sync_safe(len(text) + 1) + zlib.compress(b"\3" + text, 9)
    return b"TIT2" + sync_safe(len(body)) + b"\0\x09" + body


@pytest.mark.parametrize("sandbox", ["on", "off"])
@pytest.mark.parametrize(("suffix", "history"), [(".flac", None), (".mp3", LINE)])
def test_a_compressed_field_grows_no_output(tmp_path, monkeypatch, sandbox, suffix, history):
    monkeypatch.setenv("ALPHAMF_SANDBOX", sandbox)
    source, note = tmp_path / "a.mp3", "a compressed tag that would become too large was not copied"
    mp3_with_frame(source, compressed(b"a" * (20 << 20)))
    output = copied(source, tmp_path / f"b{suffix}", history=history, note=note)
    assert output.stat().st_size < source.stat().st_size + (1 << 16)
    mp3_with_frame(source, compressed(b"An honest title"))
    output = copied(source, tmp_path / f"b{suffix}", history=history)
    assert mutagen.File(output, easy=True)["title"] == ["An honest title"]


@pytest.mark.parametrize("sandbox", ["on", "off"])
@pytest.mark.parametrize("suffix", [".m4a", ".flac"])
def test_tags_that_are_nested_too_deep_are_a_note(tmp_path, monkeypatch, sandbox, suffix):
    monkeypatch.setenv("ALPHAMF_SANDBOX", sandbox)
    source, nested = tmp_path / "a.m4a", b""
    write(source)
    for _ in range(3000):
        nested = struct.pack(">I4s4x", len(nested) + 12, b"meta") + nested
    source.write_bytes(source.read_bytes() + nested)
    copied(source, tmp_path / f"b{suffix}", note="recursion")


@pytest.mark.slow
@pytest.mark.parametrize("sandbox", ["on", "off"])
@pytest.mark.parametrize(
    ("frame", "count"),
    [
        (b"XXXX" + sync_safe(1) + b"\0\0\0", 400_000),
        (b"TIT2" + sync_safe(4_000_001) + b"\0\0\0" + 4_000_000 * b"\0", 1),
    ],
    ids=["many small fields", "one field of many texts"],
)
def test_tags_that_take_too_long_are_a_note(tmp_path, monkeypatch, sandbox, frame, count):
    monkeypatch.setenv("ALPHAMF_SANDBOX", sandbox)
    mp3_with_frame(tmp_path / "a.mp3", frame, count)
    began = time.process_time()
    lost = "tags were not copied because they cannot be read within the limits"
    copied(tmp_path / "a.mp3", tmp_path / "b.flac", note=lost)
    assert time.process_time() - began < 15


def test_many_small_chunks_are_copied_without_a_record_of_each(tmp_path):
    source, output = tmp_path / "a.wav", tmp_path / "b.wav"
    for path in (source, output):
        soundfile.write(path, noise(), RATE)
    data = source.read_bytes() + b"junk\0\0\0\0" * 5000
    source.write_bytes(data)
    tracemalloc.start()
    metadata_chunks.keep_chunks(source, output, "<", None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert output.read_bytes()[8:] == data[8:] and peak < 1 << 19
