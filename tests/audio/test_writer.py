"""Audio files: what comes back as it was written, and what never remains."""

import io
import os
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from alphamf.audio import formats, reader, writer
from alphamf.audio.reader import open_reader, read
from alphamf.audio.writer import destination, open_writer
from alphamf.errors import AlphaMFError
from tests.support.claps import clicks
from tests.support.glides import glide

RATE = 8000


# Writing ----------------------------------------------------------------------------------------


EVERY = [
    pytest.param(
        form,
        codec,
        # Of media each container once, and each codec of Matroska.
        marks=[pytest.mark.slow]
        if form.muxer and codec != form.subtypes[0] and form.name != "MATROSKA"
        else [],
        id=f"{form.name}-{codec}",
    )
    for form in formats.FORMATS.values()
    for codec in form.subtypes
]


def is_lossless(codec):
    return codec.startswith(("ALAC", "FLAC", "PCM", "FLOAT"))


@pytest.mark.parametrize(("form", "codec"), EVERY)
def test_every_format_keeps_length_channels_rate_and_time_in_the_same_bytes(tmp_path, form, codec):
    """The time and the random numbers that libsndfile writes go again."""
    sizes, rate, most = ((1, 1), (2, 1001), (1, 16001)), 16000, 0
    if form.muxer:
        rate, channels = (8000, 1) if codec == "AMR_NB" else (48000, 2)
        sizes = ((channels, 7 * rate // 10),)
        exact = form.name in ("MP4", "MOV", "M4A") and not codec.endswith("AC3")
        exact |= is_lossless(codec) or codec in ("OPUS", "AMR_NB")
        most = 0 if exact else 4095
    for channels, frames in sizes:
        samples = clicks(rate, channels, frames / rate)
        paths = [tmp_path / f"{name}{form.suffixes[0]}" for name in "ab"]
        for path in paths:
            with open_writer(path, rate, channels, format=form.name, subtype=codec) as writer:
                for block in np.array_split(samples, 3):
                    writer.write(block)
        first, second = (path.read_bytes() for path in paths)
        assert first == second
        place = first.find(b"PEAK")
        assert place < 0 or first[place + 12 : place + 16] == bytes(4)
        with open_reader(paths[0]) as file:
            assert (file.rate, file.channels) == (rate, channels)
            assert (file.format, file.subtype) == (form.name, codec)
            got = np.concatenate(list(file.blocks()))[:, 0]
        assert frames <= len(got) <= frames + most
        if frames > 5000:
            spectrum = np.fft.rfft(got, 1 << 17) * np.fft.rfft(samples[:, 0], 1 << 17).conj()
            assert np.fft.irfft(spectrum).argmax() == 0
        if form.muxer and is_lossless(codec):
            bits = 24 if codec == "FLOAT" else min(24, int(codec[-2:]))
            assert np.abs(got - samples[:, 0]).max() <= 2.0**-bits * 1.001


@pytest.mark.parametrize(
    ("form", "subtype", "bits"),
    [
        ("WAV", "PCM_U8", 8),
        ("WAV", "PCM_16", 16),
        ("WAV", "PCM_24", 24),
        ("WAV", "PCM_32", 32),
        ("FLAC", "PCM_S8", 8),
        ("FLAC", "PCM_24", 24),
        ("AIFF", "PCM_16", 16),
        ("CAF", "ALAC_16", 16),
    ],
)
def test_integer_formats_round_to_the_nearest_step_and_clip(tmp_path, form, subtype, bits):
    samples = (np.random.default_rng(2).random((5000, 1), np.float32) * 2 - 1) * 1.3
    path = tmp_path / "a"
    with open_writer(path, RATE, 1, format=form, subtype=subtype) as writer:
        writer.write(samples)
    assert writer.clipped == np.count_nonzero(np.abs(samples) > 1)
    assert writer.clipped_by_db == pytest.approx(20 * np.log10(np.abs(samples).max()))
    got = soundfile.read(path, always_2d=True)[0]
    step = 2.0 ** (1 - bits)
    assert np.abs(got - np.clip(samples.astype(np.float64), -1, 1 - step)).max() <= step / 2


@pytest.mark.parametrize("subtype", ["ULAW", "ALAW"])
def test_companded_formats_clip_and_do_not_wrap(tmp_path, subtype):
    samples = np.linspace(-2.5, 2.5, 1001, dtype=np.float32)[:, None]
    with open_writer(tmp_path / "a", RATE, 1, subtype=subtype) as writer:
        writer.write(samples)
    got, _ = read(tmp_path / "a")
    assert np.abs(got - samples.clip(-1, 1)).max() < 0.04
    assert writer.clipped == np.count_nonzero(np.abs(samples) > 1)


@pytest.mark.parametrize(
    ("form", "subtype"),
    [("WAV", "FLOAT"), ("WAV", "DOUBLE"), ("OGG", "VORBIS"), ("MP3", "MPEG_LAYER_III")],
)
def test_floating_point_and_lossy_formats_keep_values_over_one(tmp_path, form, subtype):
    with open_writer(tmp_path / "a", 16000, 1, format=form, subtype=subtype) as writer:
        writer.write(6 * glide(16000))
    assert writer.clipped == writer.clipped_by_db == 0
    assert read(tmp_path / "a")[0].max() > 2


def test_what_was_read_is_written_bit_for_bit(shared, tmp_path):
    for name in (
        "stereo_44k1.wav",
        "mono_96k_24bit.wav",
        "u8_8k.wav",
        "surround_5_1.wav",
        "float_over_one.wav",
        "fully_clipped.wav",
    ):
        source = shared / "corpora/odd" / name
        with open_reader(source) as file:
            form = {"format": file.format, "subtype": file.subtype}
            with open_writer(tmp_path / name, file.rate, file.channels, **form) as writer:
                for block in file.blocks(10007):
                    writer.write(block)
            assert writer.clipped == 0
        expected = soundfile.read(source, dtype="float64")[0]
        np.testing.assert_array_equal(soundfile.read(tmp_path / name)[0], expected)
    head = (tmp_path / "surround_5_1.wav").read_bytes()[40:44]
    assert head == struct.pack("<I", 0x3F)


def test_a_failure_leaves_nothing_and_what_was_there(tmp_path):
    path = tmp_path / "a.wav"
    path.write_bytes(b"before")
    for error in (RuntimeError, KeyboardInterrupt, SystemExit):
        with pytest.raises(error), open_writer(path, RATE, 1) as writer:
            writer.write(glide())
            raise error
    assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["a.wav"]


def test_a_name_with_a_nul_is_refused():
    with pytest.raises(
        AlphaMFError, match=r"^cannot write a\\x00\.wav: file names cannot contain a NUL"
    ):
        open_writer("a\0.wav", RATE, 1).__enter__()


def test_a_new_file_has_the_usual_permissions_and_a_link_stays_one(tmp_path):
    (tmp_path / "plain").touch()
    with open_writer(tmp_path / "a.wav", RATE, 1) as writer:
        writer.write(glide())
    assert (tmp_path / "a.wav").stat().st_mode == (tmp_path / "plain").stat().st_mode
    (tmp_path / "link.wav").symlink_to("b.wav")
    with open_writer(tmp_path / "link.wav", RATE, 1) as writer:
        writer.write(glide())
    assert (tmp_path / "link.wav").is_symlink() and (tmp_path / "b.wav").is_file()


@pytest.mark.skipif(sys.platform == "win32", reason="limits of a process are POSIX")
@pytest.mark.parametrize("suffix", ["wav", "flac", "ogg", "mp3", "mp4", "mkv"])
def test_a_full_disk_is_reported_and_leaves_nothing(tmp_path, suffix, capfd):
    import resource

    record = formats.by_suffix(f".{suffix}", "")
    form, subtype = record.name, record.subtypes[0]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20000, limits[1]))
    try:
        with (
            pytest.raises(AlphaMFError, match=rf"a\.{suffix} cannot be written"),
            open_writer(tmp_path / f"a.{suffix}", 48000, 1, format=form, subtype=subtype) as w,
        ):
            for _ in range(20):
                w.write(np.random.default_rng(0).standard_normal((48000, 1)).astype(np.float32) / 4)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert os.listdir(tmp_path) == []


def test_a_file_that_comes_back_longer_is_told_from_a_full_disk(tmp_path, monkeypatch):
    low = {"compression_level": 0.9999, "bitrate_mode": "CONSTANT"}
    monkeypatch.setattr(writer, "compression", lambda *_: low)
    form = {"format": "MP3", "subtype": "MPEG_LAYER_III"}
    with (
        pytest.raises(AlphaMFError, match=r"cannot write .*a\.mp3: its length changes"),
        open_writer(tmp_path / "a.mp3", RATE, 1, **form) as file,
    ):
        file.write(glide())
    assert os.listdir(tmp_path) == []


def test_impossible_outputs_are_refused_in_one_sentence(tmp_path):
    mp3 = {"format": "MP3", "subtype": "MPEG_LAYER_III"}
    for path, options, sentence in (
        (tmp_path / "none" / "a.wav", {}, r"a\.wav cannot be written"),
        (tmp_path / "a.mp3", mp3, r"cannot write .*a\.mp3 as MP3"),
    ):
        with (
            pytest.raises(AlphaMFError, match=sentence),
            open_writer(path, RATE, 6, **options),
        ):
            pass
    assert os.listdir(tmp_path) == []


def test_a_stream_and_a_device_can_be_written_to(tmp_path):
    stream = io.BytesIO()
    with open_writer(stream, RATE, 1) as writer:
        writer.write(glide())
    assert soundfile.info(io.BytesIO(stream.getvalue())).frames == 2000
    with open_writer("/dev/null", RATE, 1) as writer:
        writer.write(glide())
    assert not Path("/dev/null").is_file()


# Names and formats ------------------------------------------------------------------------------


def described(**changes: object) -> reader.Reader:
    values = {
        "name": "x",
        "path": Path("x"),
        "rate": RATE,
        "channels": 2,
        "frames": 100,
        "format": "WAV",
        "subtype": "PCM_16",
        "peak": 1.0,
        "rms": 0.1,
        "checksum": 0,
    }
    return reader.Reader(**(values | changes))


@pytest.mark.parametrize(
    ("form", "subtype", "path", "derived", "expected"),
    [
        ("WAV", "PCM_24", "a.wav", True, ("a.wav", "WAV", "PCM_24")),
        ("WAV", "PCM_24", "a.bin", True, ("a.bin", "WAV", "PCM_24")),
        ("WAVEX", "PCM_16", "a.wav", False, ("a.wav", "WAVEX", "PCM_16")),
        ("WAV", "FLOAT", "a.flac", False, ("a.flac", "FLAC", "PCM_24")),
        ("WAV", "PCM_U8", "a.flac", False, ("a.flac", "FLAC", "PCM_16")),
        ("FLAC", "PCM_24", "a.OGG", False, ("a.OGG", "OGG", "VORBIS")),
        ("FLAC", "PCM_24", "a.opus", False, ("a.opus", "OGG", "OPUS")),
        ("MP3", "MPEG_LAYER_III", "-", False, ("-", "WAV", "PCM_16")),
        ("MP3", "MPEG_LAYER_III", "a.mp3", True, ("a.mp3", "MP3", "MPEG_LAYER_III")),
        ("VOC", "PCM_U8", "a.voc", True, ("a.wav", "WAV", "PCM_U8")),
        ("WAV", "IMA_ADPCM", "a.wav", True, ("a.wav", "WAV", "PCM_16")),
        ("CAF", "ALAC_24", "a.caf", True, ("a.caf", "CAF", "PCM_24")),
    ],
)
def test_output_keeps_the_format_where_it_can_and_says_where_not(
    form, subtype, path, derived, expected
):
    target = destination(path, described(format=form, subtype=subtype), derived=derived)
    assert target[:3] == expected
    assert (target.note is None) == (
        subtype == expected[2] and (form == expected[1] or not derived)
    )


LOSSY = [("OGG", "VORBIS"), ("MP3", "MPEG_LAYER_III"), ("M4A", "AAC"), ("MATROSKA", "AC3")]


@pytest.mark.parametrize("path", ["a.wav", "a.flac", "a.aiff", "a.au", "a.caf", "a.w64", "a.sph"])
@pytest.mark.parametrize(("form", "subtype"), LOSSY)
def test_a_lossy_sound_above_full_scale_is_lowered_as_a_whole(tmp_path, form, subtype, path):
    """And never clipped, in whatever integers; lossy outputs keep it as it is."""
    with open_writer(tmp_path / "in", 48000, 1, format=form, subtype=subtype) as file:
        file.write(1.4 * np.sign(glide(24000, rate=48000)).astype(np.float32))
    with reader.open_reader(tmp_path / "in") as source:
        assert source.peak > 1.2
        target = destination(str(tmp_path / path), source)
        decibels = 20 * np.log10(source.peak)
        assert target.note.endswith(f"lowered by {decibels:.1f} dB because it exceeds full scale")
        options = {"format": target.format, "subtype": target.subtype, "gain": target.gain}
        with open_writer(target.path, 48000, 1, **options) as file:
            for block in source.blocks():
                file.write(block)
        assert file.clipped == 0
        (whole,) = source.blocks()
    assert np.abs(reader.read(target.path)[0] - whole * target.gain).max() <= 2**-15
    assert destination("a.wav", source, lower=False).gain == 1
    assert destination("a.mp3", source).gain == 1


@pytest.mark.parametrize(
    ("subtype", "peak", "path", "gain"),
    [
        ("VORBIS", 0.99, "a.wav", 1),
        ("VORBIS", 2.0, "a.wav", 0.5),
        ("VORBIS", 1e6, "a.wav", 0.25),  # of damage, which must not take away the rest
        ("VORBIS", 2.0, "a.ogg", 1),
        ("FLOAT", 2.0, "a.flac", 1),
        ("PCM_16", 1.0, "a.wav", 1),
    ],
)
def test_only_a_lossy_sound_is_lowered_and_by_12_db_at_most(subtype, peak, path, gain):
    assert destination(path, described(subtype=subtype, peak=peak)).gain == gain


def test_unknown_ending_is_refused():
    with pytest.raises(AlphaMFError, match=r"the extension of a\.docx is not a known audio format"):
        destination("a.docx", described())


def test_four_gigabytes_become_rf64():
    below = described(frames=2**30 - 2**15, channels=2)
    assert destination("a.wav", below, derived=True).format == "WAV"
    assert destination("a.wav", described(frames=2**30), derived=True).format == "RF64"


@pytest.mark.parametrize(("channels", "mask"), [(8, 0x63F), (4, 0x107), (3, 0xB), (7, 0x70F)])
def test_the_places_of_the_channels_of_wav_are_kept(tmp_path, channels, mask):
    source, output = tmp_path / "a.wav", tmp_path / "b.wav"
    soundfile.write(source, np.zeros((100, channels)), 8000, format="WAVEX")
    data = bytearray(source.read_bytes())
    at = data.index(b"fmt ") + 28
    data[at : at + 4] = mask.to_bytes(4, "little")
    source.write_bytes(data)
    with open_reader(source) as reader:
        kind = destination(str(output), reader)
        options = {"format": kind.format, "subtype": kind.subtype, "original": reader}
        with open_writer(output, 8000, channels, **options) as writer:
            writer.write(np.zeros((100, channels), np.float32))
    assert output.read_bytes()[at : at + 4] == data[at : at + 4]
