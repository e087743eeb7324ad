"""Media files: what is heard when, what is copied bit for bit, and what is refused."""

import shutil
import struct
from pathlib import Path

import av
import numpy as np
import pytest

from alphamf.audio.reader import Reader, open_reader, read
from alphamf.audio.writer import destination, open_writer
from alphamf.errors import AlphaMFError
from tests.support import claps, odd_files
from tests.support.claps import Sound


def copied(source: Path, output: Path | None = None, track: int | None = None) -> tuple[Path, str]:
    """Write what is read, as `alphamf denoise` does, and return the output and its notes."""
    derived = output is None
    output = output or source.with_stem(f"{source.stem}.out")
    with open_reader(source, track=track) as reader:
        target = destination(str(output), reader, derived=derived)
        form = {"format": target.format, "subtype": target.subtype}
        with open_writer(
            target.path, reader.rate, reader.channels, **form, original=reader
        ) as writer:
            for block in reader.blocks(10007):
                writer.write(block)
        return Path(target.path), "; ".join(filter(None, (target.note, *writer.omitted_tracks)))


def remuxed(source: Path, target: Path, keep=lambda packet: True, **options: object) -> Path:
    """Copy the packets of a file; `keep` may change one, or leave it out."""
    with av.open(str(source)) as old, av.open(str(target), "w", **options) as new:
        streams = [new.add_stream_from_template(s, opaque=True) for s in old.streams]
        for packet in old.demux():
            if packet.size and keep(packet):
                packet.stream = streams[packet.stream.index]
                new.mux(packet)
    return target


def properties(path: Path, track: int | None = None) -> Reader:
    with open_reader(path, track=track) as reader:
        return reader


# In time ----------------------------------------------------------------------------------------

OPUS = Sound("libopus", "flt")
VIDEOS = [
    ("mp4", "mp4", Sound(), "mpeg4"),
    ("mp4", "mp4", Sound(rate=44100, channels=2), "libx264"),  # with pictures that are reordered
    ("mp4", "mp4", OPUS, "mpeg4"),
    ("mov", "mov", Sound(), "mpeg4"),
    ("mov", "mov", Sound("pcm_s16le", "s16"), "mpeg4"),
    ("matroska", "mkv", Sound(), "mpeg4"),
    ("matroska", "mkv", Sound(rate=44100), "libx264"),
    ("matroska", "mkv", OPUS, "mpeg4"),
    ("webm", "webm", OPUS, "libvpx"),
    ("asf", "wmv", Sound("wmav2"), "msmpeg4"),
    ("3gp", "3gp", Sound("libopencore_amrnb", "s16", 8000, 1, 12200), "mpeg4"),
]


@pytest.mark.parametrize("delay", [pytest.param(0.0, marks=pytest.mark.slow), 0.5371])
@pytest.mark.parametrize(("muxer", "suffix", "sound", "video"), VIDEOS)
def test_claps_are_heard_when_they_are_seen(tmp_path, muxer, suffix, sound, video, delay):
    """The click's distance from the picture stays the same to the sample."""
    source = tmp_path / f"a.{suffix}"
    claps.make(source, muxer, sound, video=video, delay=delay)
    output, note = copied(source)
    assert output.name == f"a.out.{suffix}" and note == ""
    before, after = claps.offsets(source), claps.offsets(output)
    np.testing.assert_allclose(after, before, atol=0.01)
    assert claps.packets(output, 0) == claps.packets(source, 0)
    one, two = properties(source), properties(output)
    assert (one.rate, one.channels, one.format, one.subtype) == (
        two.rate, two.channels, two.format, two.subtype,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("muxer", "suffix", "near"), [("mp4", "mp4", 0.01), ("matroska", "mkv", 48)]
)
def test_a_pause_between_packets_stays_one(tmp_path, muxer, suffix, near):
    """A recorder that dropped packets says so by their time stamps alone, of 1 ms in Matroska."""
    source = tmp_path / f"a.{suffix}"
    claps.make(source, muxer, Sound())
    gap = remuxed(
        source,
        tmp_path / f"gap.{suffix}",
        lambda it: it.stream.index != 1 or not 0.8 < float(it.pts * it.time_base) < 1.1,
        format=muxer,
    )
    output, _ = copied(gap)
    np.testing.assert_allclose(claps.offsets(output), claps.offsets(source), atol=near)
    assert properties(gap).frames == pytest.approx(properties(source).frames, abs=1024)


@pytest.mark.parametrize("codec", ["AAC", "OPUS", "FLAC_24"])
def test_eight_channels_keep_their_order(tmp_path, codec):
    """PyAV itself reads beyond the planes of as many channels."""
    sound = claps.clicks(48000, 8, 0.7) * np.linspace(1, 0.3, 8, dtype=np.float32)
    path = tmp_path / "a.mka"
    with open_writer(path, 48000, 8, format="MATROSKA", subtype=codec) as writer:
        writer.write(sound)
    got = read(path)[0][: len(sound)]
    levels = np.sqrt((got**2).mean(0)) / np.sqrt((sound**2).mean(0))
    lossless = codec == "FLAC_24"
    assert ((levels > 0.7) & (levels < 1.2))[[0, 1, 2, 4, 5, 6, 7]].all()  # 3: low frequencies
    assert not lossless or np.abs(got - sound).max() < 2.0**-23
    with (
        pytest.raises(
            AlphaMFError, match=r"cannot write .*a\.mka as MATROSKA FLAC_24 with 9 channels"
        ),
        open_writer(path, 48000, 9, format="MATROSKA", subtype="FLAC_24"),
    ):
        pass


# What is copied ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("muxer", "suffix"), [("mp4", "mp4"), ("matroska", "mkv")])
def test_other_tracks_chapters_and_names_stay(tmp_path, muxer, suffix):
    source = tmp_path / f"a.{suffix}"
    fields = {"title": "Räume", "artist": "Me", "comment": "x"}
    claps.make(source, muxer, Sound(), Sound(rate=44100), chapters=True, metadata=fields)
    output, _ = copied(source, track=2)
    assert claps.packets(output, 0) == claps.packets(source, 0)
    assert claps.packets(output, 1) == claps.packets(source, 1)
    assert claps.packets(output, 2) != claps.packets(source, 2)
    np.testing.assert_allclose(claps.offsets(output, 1), claps.offsets(source, 1), atol=0.01)
    with av.open(str(source)) as old, av.open(str(output)) as new:
        titles = [[c["metadata"]["title"] for c in file.chapters()] for file in (old, new)]
        assert titles[0] == titles[1] == ["one", "two"]
        for key in ("title", "artist", "comment"):
            assert {k.lower(): v for k, v in new.metadata.items()}[key] == fields[key]
        kept = [[(s.type, s.metadata.get("language"), int(s.disposition)) for s in file.streams]
                for file in (old, new)]  # fmt: skip
        assert kept[0][:3] == kept[1][:3]


def test_a_picture_that_stands_upright_stays_upright(tmp_path):
    """A telephone's turn of the picture is in the header of its track."""
    source = tmp_path / "a.mp4"
    claps.make(source, "mp4", Sound())
    upright = (0x10000).to_bytes(4, "big")
    plain = upright + bytes(12) + upright + bytes(12) + (1 << 30).to_bytes(4, "big")
    turned = (
        bytes(4) + upright + bytes(4) + (-0x10000).to_bytes(4, "big", signed=True) + bytes(16)
    ) + (1 << 30).to_bytes(4, "big")
    data = source.read_bytes()
    at = data.index(plain, data.index(b"tkhd"))
    source.write_bytes(data[:at] + turned + data[at + 36 :])
    output, _ = copied(source)
    written = output.read_bytes()
    assert written[written.index(b"tkhd") :].find(turned) < 100


def test_an_index_at_the_start_stays_there(tmp_path):
    """A film that plays while it is loaded goes on to do so."""
    claps.make(tmp_path / "a.mp4", "mp4", Sound())
    for name, options in (("first", {"movflags": "+faststart"}), ("last", {})):
        source = remuxed(tmp_path / "a.mp4", tmp_path / f"{name}.mp4", options=options)
        output, _ = copied(source)
        for data in (source.read_bytes(), output.read_bytes()):
            assert (data.index(b"moov") < data.index(b"mdat")) == (name == "first")
        assert claps.packets(output, 0) == claps.packets(source, 0)
        np.testing.assert_allclose(claps.offsets(output), claps.offsets(source), atol=0.01)


def test_the_bit_rate_is_about_the_same(tmp_path):
    for kilobits in (64, 192):
        source = tmp_path / "a.m4a"
        sound = 0.1 * np.random.default_rng(0).standard_normal((48000 * 2, 2)).astype(np.float32)
        with_rate = Sound(channels=2, bit_rate=1000 * kilobits)
        claps.make(source, "ipod", with_rate, video=None, content=sound)
        output, _ = copied(source)
        before, after = properties(source).track, properties(output).track
        assert after.bit_rate == pytest.approx(before.bit_rate, rel=0.1)


def test_the_sound_of_a_video_alone_and_in_another_container(tmp_path):
    source = tmp_path / "a.mp4"
    claps.make(source, "mp4", Sound())
    for suffix, form in (("wav", "WAV"), ("m4a", "M4A"), ("mka", "MATROSKA"), ("aac", "ADTS")):
        output, note = copied(source, tmp_path / f"b.{suffix}")
        assert properties(output).format == form
        assert properties(output).rate == 48000
    output, note = copied(source, tmp_path / "b.m4a")
    assert note == "video track 0"
    output, note = copied(source, tmp_path / "b.mkv")
    np.testing.assert_allclose(claps.offsets(output), claps.offsets(source), atol=0.01)
    with pytest.raises(
        AlphaMFError, match=r"cannot write .*\.amr as AMR AMR_NB with 1 channels at 48"
    ):
        copied(source, tmp_path / "b.amr")


def test_a_codec_without_encoder_gives_way_to_the_containers_own(tmp_path):
    source = tmp_path / "a.mkv"
    with open_writer(tmp_path / "a.ogg", 48000, 1, format="OGG", subtype="VORBIS") as writer:
        writer.write(claps.clicks(48000))
    output, note = copied(remuxed(tmp_path / "a.ogg", source))
    assert note == "MATROSKA VORBIS is written as MATROSKA AAC"
    assert properties(output).subtype == "AAC"


def test_pictures_of_the_same_time_go_into_a_container_that_has_none(tmp_path):
    """Matroska takes two packets at a time, MP4 does not."""
    claps.make(tmp_path / "a.mkv", "matroska", Sound())
    before = 0

    def doubled(packet):
        nonlocal before
        if packet.stream.index == 0:
            if 300 < packet.pts < 400:
                packet.pts = packet.dts = before
            before = packet.pts
        return True

    remuxed(tmp_path / "a.mkv", tmp_path / "b.mkv", doubled)
    output, _ = copied(tmp_path / "b.mkv", tmp_path / "b.mp4")
    old, new = claps.packets(tmp_path / "b.mkv", 0), claps.packets(output, 0)
    assert [data for _, data in new] == [data for _, data in old]
    assert max(abs(one[0] - two[0]) for one, two in zip(old, new, strict=True)) < 0.005


# What is refused --------------------------------------------------------------------------------


def refusal(source: Path, **options: object) -> str:
    """Return what is missing, or why nothing can be read."""
    try:
        with open_reader(source, **options) as reader:
            return str(reader.cut)
    except AlphaMFError as error:
        return str(error)


CUT = [
    ("mp4", "mp4", Sound(), "its index (moov) is missing"),
    ("ismv", "mp4", Sound(), "bytes of samples, but it has only"),
    ("matroska", "mkv", Sound(), "bytes of samples, but it has only"),
    ("asf", "wma", Sound("wmav2"), "bytes of samples, but it has only"),
    ("adts", "aac", Sound(), "its last AAC frame is incomplete"),
    ("amr", "amr", Sound("libopencore_amrnb", "s16", 8000), "its last AMR frame is incomplete"),
]


@pytest.mark.parametrize(("muxer", "suffix", "sound", "reason"), CUT)
def test_a_file_that_was_cut_is_read_up_to_there(tmp_path, muxer, suffix, sound, reason):
    source = tmp_path / f"a.{suffix}"
    claps.make(source, muxer, sound, video=None)
    whole = properties(source)
    data = source.read_bytes()
    source.write_bytes(data[: len(data) * 2 // 3 - 1])
    assert (
        "a." in (sentence := refusal(source)) and "is truncated" in sentence and reason in sentence
    )
    if muxer == "mp4":
        return
    with open_reader(source) as reader:
        assert 0.4 * whole.frames < reader.frames < 0.9 * whole.frames
        assert reader.cut is not None and "; using the first " in reader.cut
        assert sum(map(len, reader.blocks())) == reader.frames


def test_damage_inside_is_found(tmp_path):
    source = tmp_path / "a.m4a"
    claps.make(source, "ipod", Sound("alac", "s16p"), video=None)
    data = bytearray(source.read_bytes())
    at = data.index(b"mdat") + 60_000
    data[at : at + 20_000] = np.random.default_rng(0).bytes(20_000)
    source.write_bytes(data)
    assert "a.m4a is damaged or truncated" in refusal(source)


def test_a_seek_before_the_start_is_damage(tmp_path):
    """FFmpeg asks for it where an object of ASF has a senseless size."""
    source = tmp_path / "a.wma"
    claps.make(source, "asf", Sound("wmav2"), video=None)
    data = bytearray(source.read_bytes())
    at = data.index(bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365")) + 16
    data[at : at + 8] = b"\xff" * 8
    source.write_bytes(data)
    assert "a.wma cannot be read as ASF" in refusal(source)


def test_samples_of_unknown_kind_are_refused(tmp_path):
    """FLAC's header may leave the kind to the first frame, which is not whole here."""
    source = tmp_path / "a.mkv"
    claps.make(source, "matroska", Sound("flac", "s16"), video=None)
    without = source.read_bytes().replace(b"\x62\x64\x81", b"\xec\x01\x81", 1)  # its bit depth
    source.write_bytes(without[:2500])
    sentence = refusal(source)
    assert sentence == f"no sample of the audio track of {source} can be decoded"


@pytest.mark.parametrize(
    ("muxer", "suffix", "known"), [("matroska", "mkv", b"A_AC3"), ("mp4", "mp4", b"ac-3")]
)
def test_another_track_of_an_unknown_codec_is_left_out_and_said(tmp_path, muxer, suffix, known):
    source = tmp_path / f"a.{suffix}"
    claps.make(source, muxer, Sound(), Sound("ac3"))
    source.write_bytes(source.read_bytes().replace(known, known[:2] + b"?" + known[3:]))
    output, notes = copied(source)
    assert notes == "audio track 2"
    with av.open(str(output)) as new:
        assert [stream.type for stream in new.streams] == ["video", "audio"]


def test_tracks_that_are_not_there(tmp_path):
    claps.make(tmp_path / "a.mp4", "mp4", Sound())
    claps.make(tmp_path / "mute.mp4", "mp4")
    assert "a.mp4 has 1 audio track; `track` 2 does not exist" in refusal(
        tmp_path / "a.mp4", track=2
    )
    assert refusal(tmp_path / "mute.mp4").endswith("mute.mp4 has no audio track")
    with open_writer(tmp_path / "a.wav", 8000, 1) as writer:
        writer.write(claps.clicks(8000))
    assert "a.wav has no tracks" in refusal(tmp_path / "a.wav", track=2)


def test_a_playlist_that_names_other_files_is_no_media_file(tmp_path):
    claps.make(tmp_path / "a.mp4", "mp4", Sound())
    for text in ("#EXTM3U\n#EXTINF:3,\na.mp4\n", "ffconcat version 1.0\nfile a.mp4\n"):
        (tmp_path / "list.mp4").write_text(text)
        assert refusal(tmp_path / "list.mp4").endswith(
            "list.mp4 is not an audio file in a known format"
        )


@pytest.mark.parametrize("codec", ["libmp3lame", "mp2", "ac3", "wmav2", "flac", "adpcm_yamaha"])
def test_wav_of_another_codec_is_read(tmp_path, codec):
    source = tmp_path / "a.wav"
    sample = {"mp2": "s16", "flac": "s16", "adpcm_yamaha": "s16"}
    claps.make(source, "wav", Sound(codec, sample.get(codec, "fltp"), 32000), video=None)
    found = properties(source)
    assert (found.format, found.rate) == ("WAV", 32000)
    assert found.duration == pytest.approx(claps.PICTURES / claps.FRAMES, abs=0.1)
    output, note = copied(source)
    assert (properties(output).subtype, properties(output).frames) == ("PCM_16", found.frames)
    assert note == f"WAV {found.subtype} is written as WAV PCM_16"


@pytest.mark.parametrize("sandbox", ["on", "off"])
@pytest.mark.parametrize("tag", [0xFF, 0x2000, 0x161])  # AAC, AC-3, WMA
def test_a_track_of_no_channels_is_refused(tmp_path, monkeypatch, tag, sandbox):
    monkeypatch.setenv("ALPHAMF_SANDBOX", sandbox)
    head = struct.pack("<HHIIHHH", tag, 0, 8000, 1000, 65, 2, 0)
    data = np.random.default_rng(0).bytes(326)
    body = b"WAVEfmt " + struct.pack("<I", len(head)) + head
    body += b"data" + struct.pack("<I", len(data)) + data
    (tmp_path / "a.wav").write_bytes(b"RIFF" + struct.pack("<I", len(body)) + body)
    name = tmp_path / "a.wav"
    assert refusal(name) in (
        f"{name} has an audio track of 0 channels",
        f"no sample of the audio track of {name} can be decoded",
    )


FOREIGN = [
    ("caf", "caf", Sound("alac", "s16p")), ("mpegts", "mts", Sound("ac3")),
    ("avi", "avi", Sound("ac3")), ("flv", "flv", Sound("aac", rate=44100)),
    ("ogg", "ogg", Sound("flac", "s16")), ("wv", "wv", Sound("wavpack", "s16p")),
    ("tta", "tta", Sound("tta", "s16")), ("ac3", "ac3", Sound("ac3")),
]  # fmt: skip


@pytest.mark.parametrize("sandbox", ["on", "off"])
@pytest.mark.parametrize(("muxer", "suffix", "sound"), FOREIGN)
def test_whatever_ffmpeg_decodes_is_read_and_written_as_wav(
    tmp_path, monkeypatch, muxer, suffix, sound, sandbox
):
    monkeypatch.setenv("ALPHAMF_SANDBOX", sandbox)
    source = tmp_path / f"a.{suffix}"
    claps.make(source, muxer, sound, video=None)
    with open_reader(source) as reader:
        assert reader.cut is None and reader.duration > 1
        assert sum(map(len, reader.blocks())) == reader.frames
        found = destination(str(tmp_path / f"o.{suffix}"), reader, derived=True)
    assert found.path.endswith("o.wav")
    assert found.note is not None and " is written as WAV PCM_" in found.note


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("ffmpeg"), reason="ffmpeg is not installed")
def test_files_of_each_kind_are_read_and_copied(tmp_path):
    found = odd_files.results(tmp_path)
    assert len(found) > 200
    kinds = {what: [each.path.name for each, it in found if it == what] for _, what in found}
    assert "WRONG" not in kinds, kinds["WRONG"]
    assert {name.rpartition(".")[2] for name in kinds.get("refused", [])} <= {"voc", "aptx"}
