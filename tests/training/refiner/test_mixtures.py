"""Noises, mixtures, what a file makes of them, recordings, and clips on disk."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from alphamf.audio import stft
from alphamf.audio.resample import resample
from alphamf.denoising import gain
from alphamf.errors import AlphaMFError
from alphamf.learnt import network
from alphamf.learnt.refiner import Refiner
from alphamf.training.refiner import (
    clips,
    mixtures,
    music,
    noises,
    recordings,
    shaping,
    shards,
)
from alphamf.training.refiner.recordings import SplitRecordings
from tests.support import tones
from tests.support.tones import FRAME, RATE, ROOM, SOUNDS, VOICES, voice

SAMPLES = 4800
MADE = SplitRecordings(VOICES, SOUNDS, [ROOM])

RECIPE = tones.changed(Path("x")).mixtures
KINDS = {
    "coloured": lambda rng: noises.coloured_noise(rng, SAMPLES, RATE),
    "place": lambda rng: noises.place_noise(rng, SAMPLES, RATE, VOICES),
    "hum": lambda rng: noises.hum(rng, SAMPLES, RATE),
    "rumble": lambda rng: noises.rumble(rng, SAMPLES, RATE),
    "babble": lambda rng: noises.babble(rng, SAMPLES, RATE, VOICES),
    "crackle": lambda rng: noises.crackle(rng, SAMPLES, RATE),
    "events": lambda rng: noises.events(rng, SAMPLES, RATE, SOUNDS),
    "recorded": lambda rng: noises.recorded_noise(rng, SAMPLES, RATE, SOUNDS),
    "music": lambda rng: music.music(rng, SAMPLES, RATE),
    "all": lambda rng: noises.noise(rng, SAMPLES, RATE, VOICES, SOUNDS, RECIPE),
}


@pytest.fixture(scope="module")
def made(corpora, tmp_path_factory):
    """Return the shards of all clips to train on, in files of four."""
    folder = tmp_path_factory.mktemp("mixtures")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "SIZE", 4)
        planned = shards.plan(tones.changed(corpora), folder, "train", 10)
        assert list(shards.make_all(planned, 1)) == planned
    return planned


@pytest.mark.parametrize("kind", KINDS)
def test_a_noise_is_finite_and_the_same_for_the_same_seed(kind):
    make = KINDS[kind]
    heard = [make(np.random.default_rng(seed)) for seed in range(12)]
    for seed, each in enumerate(heard):
        assert each.shape == (SAMPLES,)
        assert np.isfinite(each).all() and each.any()
        np.testing.assert_array_equal(each, make(np.random.default_rng(seed)))
    assert len({each.tobytes() for each in heard}) == len(heard)


def drawn(seed, rate=RATE, **recipe):
    """Return a mixture of a recipe with other values."""
    found = tones.changed(Path("x"), mixtures=recipe).mixtures
    return mixtures.mixture(np.random.default_rng(seed), SAMPLES, rate, MADE, found)


PLAIN = {
    name: 0
    for name in "nearly_clean rooms made_up_rooms telephone band codec clipped pauses".split()
}


def test_a_mixture_is_speech_and_noise_at_a_level_within_the_range():
    ratios, peaks = [], []
    for seed in range(80):
        clean, noisy = drawn(seed, **PLAIN, snr=[-8, 15])
        assert clean.dtype == noisy.dtype == np.float32
        assert clean.shape == noisy.shape == (SAMPLES,)
        peaks.append(20 * np.log10(np.abs(noisy).max()))
        rest = (noisy - clean).astype(float)
        ratios.append(10 * np.log10(np.mean(clean.astype(float) ** 2) / np.mean(rest**2)))
        assert abs(np.corrcoef(clean, rest)[0, 1]) < 0.7  # what is added is no speech
        np.testing.assert_allclose(noisy * 32767, np.round(noisy * 32767), atol=2e-3)
    assert -8.1 < min(ratios) < -4 and 11 < max(ratios) < 15.1
    assert -50.1 < min(peaks) < -45 and -5 < max(peaks) <= 0


def test_a_voice_may_begin_late_and_does_so_between_words():
    """Of two rows, a target and a voice, both begin where the voice is quietest."""
    time = np.arange(4 * RATE) / RATE
    words = np.abs(np.sin(2 * np.pi * 5 * time))  # a gap each .1 s
    heard = words * np.random.default_rng(0).standard_normal(len(time))
    starts = []
    for seed in range(20):
        late = shaping.begin_late(np.random.default_rng(seed), np.stack([heard / 2, heard]), RATE)
        sounding = np.flatnonzero(late[1])
        start = sounding[0] / RATE
        np.testing.assert_array_equal(late[1], 2 * late[0])
        after = sounding[0] + RATE // 50
        np.testing.assert_array_equal(late[1][after:], heard[after:])
        assert words[int((start + 0.01) * RATE)] < 0.2
        starts.append(start)
    assert 0.2 <= min(starts) < 0.5 and 1.3 < max(starts) <= 1.6
    for samples in (2, RATE // 2):
        assert len(shaping.begin_late(np.random.default_rng(0), heard[:samples], RATE)) == samples


@pytest.mark.parametrize("codec", [codec for _, codec in mixtures.CODECS], ids=lambda c: c.subtype)
def test_a_codec_keeps_time_and_length(codec):
    rng = np.random.default_rng(0)
    for rate in (8000, 16000):
        given = 0.3 * shaping.shape_spectrum(
            rng, rng.standard_normal(rate), rate, 3.0, (-1.0, -0.8)
        )
        given /= 4 * np.abs(given).max()
        for compression in codec.compression or (None,):
            heard = mixtures.encode_and_decode(given, rate, codec, compression)
            assert heard.shape == given.shape and heard.dtype == np.float32
            both = np.fft.rfft([heard, given], 2 * rate)
            assert np.fft.irfft(both[0] * both[1].conj()).argmax() == 0
            again = mixtures.encode_and_decode(given, rate, codec, compression)
            np.testing.assert_array_equal(heard, again)


def prepared(data, folder):
    """Return the recordings to train with and those held out, as a run prepares them."""
    folder.mkdir()
    recordings.prepare_recordings(data, RATE, folder)
    return [recordings.open_recordings(folder, split) for split in ("train", "dev")]


def test_recordings_are_read_at_one_rate_in_one_channel(tmp_path):
    (tmp_path / "deep").mkdir()
    left = np.sin(2 * np.pi * 300 * np.arange(2 * RATE) / (2 * RATE)).astype(np.float32)
    soundfile.write(tmp_path / "deep" / "a.flac", np.stack([left, 0 * left], 1), 2 * RATE)
    soundfile.write(tmp_path / "silent.wav", np.zeros(RATE), RATE)
    soundfile.write(tmp_path / "z.wav", voice(0), RATE, subtype="FLOAT")
    data = tones.changed(
        tmp_path,
        data={"voices": [str(tmp_path)], "sounds": [str(tmp_path)], "rooms": []},
        mixtures={"rooms": 0},
    ).data
    train, dev = prepared(data, tmp_path / "made")
    # Of fewer than five files the last fifth is held out.
    assert [len(each) for each in train.voices] == [RATE * 4 // 5] * 2
    assert [len(each) for each in dev.sounds] == [RATE // 5] * 2 and dev.rooms == []
    np.testing.assert_array_equal(train.voices[0], voice(0)[: RATE * 4 // 5])
    assert np.abs(train.voices[1]).max() == pytest.approx(0.5, abs=0.01)
    (tmp_path / "more").mkdir()
    with pytest.raises(AlphaMFError, match=r"wav has a rate of 8000 Hz"):
        recordings.prepare_recordings(data, 2 * RATE, tmp_path / "more")
    assert not list((tmp_path / "more").iterdir())


def test_unscored_sounds_are_learnt_from_alone(tmp_path):
    folders = {}
    for k, (name, seconds) in enumerate({"voices": 1, "sounds": 2, "unscored": 3}.items()):
        folders[name] = [str(tmp_path / name)]
        (tmp_path / name).mkdir()
        for split in ("train", "dev"):
            soundfile.write(tmp_path / name / f"{split}.wav", voice(k)[: seconds * RATE // 4], RATE)
        rows = "".join(f"{split}.wav,{split},me\n" for split in ("train", "dev"))
        (tmp_path / name / "MANIFEST.csv").write_text("path,split,speaker\n" + rows)
    data = tones.changed(tmp_path, data=folders | {"rooms": []}, mixtures={"rooms": 0}).data
    train, dev = prepared(data, tmp_path / "made")
    assert [len(each) for each in train.sounds] == [RATE // 2, RATE * 3 // 4]
    assert [len(each) for each in dev.sounds] == [RATE // 2]
    assert [len(each) for each in (*train.voices, *dev.voices)] == [RATE // 4] * 2


def stems(folder, manifest, split="train", **options):
    """Return the names of the recordings of a split of a folder with a manifest."""
    (folder / "MANIFEST.csv").write_text("\n".join(manifest))
    return [Path(each.path).stem for each in recordings.sources(str(folder), split, **options)]


LEVELS = "path,split,level_p10_db,level_p90_db"


def test_recordings_are_those_of_the_split_the_speakers_and_the_levels(tmp_path):
    rows = ["path,split", "a.wav,train", "b.wav,dev", "c.wav,test", "d.wav,train"]
    assert stems(tmp_path, rows) == ["a", "d"] and stems(tmp_path, rows, "dev") == ["b"]
    speakers = [*("aaaaaaa"), "b", "a", "b", "c"]
    rows = [f"{k}.wav,train,{name}" for k, name in enumerate(speakers)]
    few = stems(tmp_path, ["path,split,speaker", *rows, "x.wav,dev,a"], most=2)
    assert few == ["0", "4", "7", "9", "10"]  # evenly apart, those who have fewer with all
    rows = ["a.wav,train,-60,-9", "b.wav,train,-59,-9.5", "c.wav,train,,-9", "d.wav,train,-9,-60"]
    found = {
        quiet: "".join(stems(tmp_path, [LEVELS, *rows, "e.wav,dev,-60,-9"], quiet=quiet))
        for quiet in (0, 40, 50, 60)
    }
    assert found == {0: "abcd", 40: "ab", 50: "a", 60: ""}


@pytest.mark.parametrize(
    ("rows", "options", "sentence"),
    [
        (["file", "a.wav"], {}, r"MANIFEST\.csv cannot be read: line 2 has no "),
        (
            ["split,path", "dev,a.wav", "train"],
            {},
            r"MANIFEST\.csv cannot be read: line 3 has no path",
        ),
        (["path,split", "a.wav,train"], {"most": 1}, "line 2 has no speaker"),
        ([LEVELS, "a.wav,train,low,-9"], {"quiet": 50}, r"the level of a\.wav is no number"),
    ],
)
def test_a_manifest_that_lacks_something_is_named(tmp_path, rows, options, sentence):
    with pytest.raises(AlphaMFError, match=sentence):
        stems(tmp_path, rows, **options)
    (tmp_path / "MANIFEST.csv").unlink()
    with pytest.raises(AlphaMFError, match=r"has no MANIFEST\.csv with levels"):
        recordings.sources(str(tmp_path), "train", quiet=50)


@pytest.mark.parametrize("data", [None, "."])
def test_a_folder_that_exists_is_no_corpus_of_the_same_name(empty, monkeypatch, data):
    monkeypatch.delenv("ALPHAMF_DATA", raising=False)
    if data is not None:
        monkeypatch.setenv("ALPHAMF_DATA", data)
    for name in ("talks", "corpora/talks", "corpora/others"):
        Path(name).mkdir(parents=True)
        Path(name, "a.wav").touch()
    found = [recordings.sources(name, "train")[0].path for name in ("talks", "others")]
    assert found == ["talks/a.wav", "corpora/others/a.wav" if data else "others"]


def test_every_fifth_file_of_a_folder_without_a_manifest_is_held_out(corpora):
    split = {name: recordings.sources(str(corpora / "speech"), name) for name in ("train", "dev")}
    assert [len(split["train"]), len(split["dev"])] == [4, 1]
    assert not set(split["train"]) & set(split["dev"])


def test_shards_hold_sounds_and_the_posterior(made):
    found = shards.Clips(made)
    stacked = clips.FirstStageClip(*(np.stack(each) for each in zip(*found, strict=True)))
    assert all(isinstance(each, clips.FirstStageClip) for each in found)
    cells = (10, FRAME.bins, stft.frame_count(SAMPLES, FRAME))
    sounds = (10, SAMPLES)
    assert [each.shape for each in stacked] == [sounds, sounds, cells, cells, cells, cells]
    assert all(each.dtype == np.float16 and np.isfinite(each).all() for each in stacked)
    np.testing.assert_allclose((stacked.noisy.astype(float) ** 2).mean(1), 1, rtol=1e-2)
    assert stacked.gain.min() >= 0 and stacked.gain.max() <= 1 and stacked.gain_std.min() >= 0


@pytest.mark.parametrize(
    ("name", "recipe"), [("second-stage", {}), ("dereverberator", {"echo": 1.0})]
)
def test_clips_of_a_later_stage_hold_the_first_ones_output(
    corpora, tmp_path, monkeypatch, name, recipe
):
    monkeypatch.setattr(mixtures, "RECORDED", 1.0)
    start = network.start(np.random.default_rng(0), FRAME.bins, network.Sizes(16, 32, 1, 3, 12, 0))
    zeros = {name: 0 * value for name, value in start.items()}
    Refiner(zeros, RATE, FRAME).save(tmp_path / "first.npz")
    kind = {"kind": {"name": name, "of": str(tmp_path / "first.npz")}}
    config = tones.changed(corpora, network=kind, mixtures=recipe)
    planned = shards.plan(config, tmp_path / "made", "dev", 2)
    list(shards.make_all(planned, 1))
    for found in shards.Clips(planned):
        noisy, first, clean = (each.astype(float) for each in found)
        assert noisy.shape == first.shape == clean.shape == (SAMPLES,) and clean.any()
        np.testing.assert_allclose(np.mean(noisy**2), 1, rtol=1e-2)
        assert 0 < np.mean(first**2) < 1.1


def test_what_is_missing_is_made_and_nothing_else(made, corpora, monkeypatch):
    monkeypatch.setattr(shards, "SIZE", 4)
    assert [shard.clips for shard in made] == [4, 4, 2]
    before = [(shard.path.stat().st_mtime_ns, shard.path.read_bytes()) for shard in made]
    made[2].path.unlink()
    assert list(shards.make_all(made, 2)) == [made[2]]
    for shard, (time, content) in zip(made, before, strict=True):
        assert (shard.path.stat().st_mtime_ns == time) == (shard is not made[2])
        assert shard.path.read_bytes() == content
    other = tones.changed(corpora, mixtures={"seed": 2})
    with pytest.raises(AlphaMFError, match="contains mixtures with another recipe"):
        list(shards.make_all(shards.plan(other, made[0].folder, "train", 4), 1))
    # More of the same may be made, and a last file that was short is made again.
    more = shards.plan(tones.changed(corpora, mixtures={"clips": 11}), made[0].folder, "train", 11)
    whole = shards.Clips(made)[9]
    assert list(shards.make_all(more, 1)) == [more[2]]
    np.testing.assert_array_equal(shards.Clips(more)[9].noisy, whole.noisy)


def test_clips_are_read_while_others_are_made(corpora, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "SIZE", 4)
    planned = shards.plan(tones.changed(corpora), tmp_path / "made", "train", 10)
    lines = []
    # Two runs with the same recipe: one makes the mixtures, and the other waits for them.
    both = [shards.Making(planned, 1, lines.append) for _ in range(2)]
    for making in both:
        making.start()
    found = [shards.Clips(planned, making)[9].noisy for making in both]
    np.testing.assert_array_equal(*found)
    for making in both:
        making.join()
        making.check()
    assert len(lines) == len(planned) == 3


def test_a_failure_to_make_clips_reaches_who_reads_them(corpora, tmp_path):
    nowhere = {"voices": [str(tmp_path / "nowhere")]}
    planned = shards.plan(tones.changed(corpora, data=nowhere), tmp_path / "made", "train", 10)
    making = shards.Making(planned, 1, print)
    making.start()
    with pytest.raises(AlphaMFError, match="nowhere"):
        shards.Clips(planned, making)[0]


def spoken(seed, rate, hiss_db):
    """Return a second of a voice, another of pause, and that twice, with a hiss of its own."""
    rng = np.random.default_rng(seed)
    said = resample(voice(seed, 1.0), RATE, rate)
    speech = np.concatenate([said, 0 * said] * 2)
    level = 10 ** (hiss_db / 20) * shaping.rms(said.astype(float))
    return speech, speech + (level * rng.standard_normal(len(speech))).astype(np.float32)


@pytest.mark.parametrize("rate", [8000, 16000])
def test_a_floor_is_taken_away_and_the_speech_left(rate):
    for seed in range(4):
        for hiss_db in (-60, -45, -30):
            speech, heard = spoken(seed, rate, hiss_db)
            kept = gain.remove_floor(heard, rate)
            assert kept.shape == heard.shape and kept.dtype == np.float32
            pause = slice(int(1.1 * rate), int(1.9 * rate))
            fallen = shaping.rms(kept[pause]) / shaping.rms(heard[pause])
            assert 20 * np.log10(fallen) < -25
            frame = stft.Frame(rate // 32 * 2, rate // 64)
            powers = [np.abs(stft.forward(each, frame)) ** 2 for each in (speech, heard, kept)]
            # Cells where the speech is 20 dB above the hiss's mean power in a cell.
            hiss = (np.abs(stft.forward(heard - speech, frame)) ** 2).mean()
            loud = powers[0] > 100 * hiss
            change = 10 * np.log10(powers[2][loud].sum() / powers[1][loud].sum())
            assert loud.sum() > 100 and abs(change) < 0.1


def test_a_recording_without_a_floor_stays_as_it_is():
    speech, _ = spoken(0, RATE, -60)
    kept = gain.remove_floor(speech, RATE)
    assert shaping.rms(kept - speech) < 1e-3 * shaping.rms(speech)
    np.testing.assert_array_equal(gain.remove_floor(0 * speech, RATE), 0 * speech)


def test_a_mixture_keeps_the_hiss_that_its_target_does_not_have():
    pairs = [spoken(seed, RATE, -40) for seed in range(5)]
    plain, hissing = ([pair[k] for pair in pairs] for k in (0, 1))
    recipe = {**PLAIN, "rooms": 0.3, "telephone": 0.3, "made_up_rooms": 0.2, "codec": 0.0}
    asked = tones.changed(Path("x"), mixtures=recipe | {"sibilant": 0.5, "snr": [60, 60]}).mixtures
    without = SplitRecordings(hissing, SOUNDS, [ROOM])
    same, other = (without._replace(targets=each) for each in (hissing, plain))
    rests = []
    for seed in range(20):
        made = [
            mixtures.mixture(np.random.default_rng(seed), SAMPLES, RATE, known, asked)
            for known in (without, same, other)
        ]
        # Targets that are the voices change no bit, and others do not change the mixture.
        np.testing.assert_array_equal(made[0], made[1])
        np.testing.assert_array_equal(made[0][1], made[2][1])
        rests.append([shaping.rms(noisy - clean) / shaping.rms(clean) for clean, noisy in made])
    ratios = 20 * np.log10(np.median(rests, axis=0))
    assert ratios[2] > ratios[1] + 3  # the hiss of the voice is noise


def test_targets_without_hiss_are_prepared_with_their_voices(tmp_path):
    rows = ["path,split"]
    (tmp_path / "speech").mkdir()
    for k in range(6):
        soundfile.write(tmp_path / "speech" / f"{k}.wav", spoken(k, RATE, -40)[1], RATE)
        rows.append(f"{k}.wav,{'train' if k < 4 else 'dev'}")
    (tmp_path / "speech" / "MANIFEST.csv").write_text("\n".join(rows))
    (tmp_path / "noise").mkdir()
    for k in range(5):
        soundfile.write(tmp_path / "noise" / f"{k}.wav", SOUNDS[0], RATE)
    data = {"voices": ["speech"], "sounds": ["noise"], "rooms": []}
    data = {key: [str(tmp_path / name) for name in names] for key, names in data.items()}
    asked = tones.changed(tmp_path, data=data | {"floorless": True}, mixtures={"rooms": 0}).data
    for found, count in zip(prepared(asked, tmp_path / "made"), (4, 2), strict=True):
        assert len(found.targets) == len(found.voices) == count
        for target, each in zip(found.targets, found.voices, strict=True):
            np.testing.assert_array_equal(target, gain.remove_floor(each, RATE))
