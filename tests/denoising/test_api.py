"""What comes out of the denoiser, seen from outside: shapes, symmetries, joins, time and level."""

import re
import tracemalloc
from base64 import b64decode
from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
import soundfile
from hypothesis import given, settings
from hypothesis import strategies as st

from alphamf.audio.resample import resample
from alphamf.audio.stft import Frame, frame_count
from alphamf.denoising.api import denoise, denoise_stream
from alphamf.denoising.grids import BAND_TOP
from alphamf.denoising.sampling import check_memory
from alphamf.denoising.segments import OVERLAP_SECONDS, SEGMENT_SECONDS
from alphamf.denoising.settings import HYPERPARAMETERS, PRESETS, Settings, choose_settings
from alphamf.denoising.stream import Stream
from alphamf.denoising.stream_options import from_float
from alphamf.errors import AlphaMFError
from alphamf.learnt.dictionary import Dictionary
from alphamf.scores.score import si_sdr
from alphamf.tools import machine
from tests.support.places import DATA

RATE = 8000
FRAME = Frame(128, 32)
QUICK = Settings(steps=4, keep=2, thin=1, noise_rank=2)
"""Too short a chain to denoise well; what is tested with it holds for any gain."""


def peaks(*bins, context=2):
    """Return a dictionary of spectra with one peak each, the same in each stacked frame."""
    grid = np.arange(65)[:, None]
    spectra = np.exp(-((grid - np.array(bins)) ** 2) / 8) + 0.01
    basis = np.concatenate([spectra] * context).astype(np.float32)
    return Dictionary(basis / basis.sum(0), 1.0, RATE, FRAME, context)


TINY = peaks(5, 10, 20, 40)


def sound(samples, channels=0, seed=0):
    """White noise whose level changes; shape (samples,) for no channels."""
    shape = (samples, channels) if channels else (samples,)
    audio = 0.1 * np.random.default_rng(seed).standard_normal(shape, np.float32)
    audio *= (
        (1 + np.sin(np.arange(samples) / 700)).astype(np.float32).reshape(-1, *[1] * bool(channels))
    )
    return audio


def run(audio, rate=RATE, settings=QUICK, *, model=TINY, **options):
    return denoise(audio, rate, settings, model=model, **options)


def stream(blocks, rate=RATE, settings=QUICK):
    """Return the whole of each field of the segments of a stream."""
    segments = list(denoise_stream(blocks, rate, settings, model=TINY))
    sounds = [np.concatenate([getattr(s, name) for s in segments]) for name in ("audio", "noise")]
    gains = [np.concatenate([getattr(s, n) for s in segments], 2) for n in ("gain", "gain_std")]
    return [*sounds, *gains]


# Any input


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    samples=st.one_of(st.integers(1, 300), st.integers(300, 6000)),
    channels=st.integers(0, 3),
    rate=st.sampled_from([8000, 11025, 16000, 44100]),
)
def test_shapes_and_sums(samples, channels, rate):
    audio = sound(samples, channels)
    audio.setflags(write=False)
    out = run(audio, rate)
    assert out.audio.shape == out.noise.shape == audio.shape
    assert {x.dtype for x in out[:4]} == {np.dtype(np.float32)}
    np.testing.assert_allclose(out.audio + out.noise, audio, atol=1e-6)
    axes = (max(channels, 1), len(out.frequencies), len(out.frame_times))
    assert out.gain.shape == out.gain_std.shape == axes
    assert 0 <= out.gain.min() <= out.gain.max() <= 1
    # A variable within [0, 1] deviates by half at most.
    assert 0 <= out.gain_std.min() <= out.gain_std.max() <= 0.5
    assert out.frame_times[-1] >= (samples - 1) / rate
    assert len(out.acceptance) == 2
    assert all(0 < share <= 1 for share in out.acceptance)


def test_axes_at_the_models_own_rate():
    out = run(sound(5000))
    np.testing.assert_allclose(out.frequencies, np.linspace(0, 4000, 65))
    np.testing.assert_allclose(out.frame_times, np.arange(frame_count(5000, FRAME)) * 0.004)


@pytest.mark.parametrize(
    ("audio", "words"),
    [
        (np.zeros(0, np.float32), "shape"),
        (np.zeros((0, 2), np.float32), "shape"),
        (np.zeros((2, 0), np.float32), "shape"),
        (np.float32(1), "shape"),
        (np.zeros((2, 2, 2), np.float32), "shape"),
        (np.array([0, np.nan], np.float32), "NaN"),
        (np.array([0, -np.inf], np.float32), "infinite"),
        (np.array([0, 1e300]), "beyond the range of float32"),
        (np.ones(9, complex), "real numbers, not complex128"),
        (np.ones(9, bool), "real numbers, not bool"),
        (np.ones(9, object), "real numbers, not object"),
        (["loud", "quiet"], "real numbers, not <U5"),
        ([[1.0], [1.0, 2.0]], "cannot be converted to an array"),
        (
            np.zeros((2, 4000), np.float32),
            r"channels seem to be first; give x\.T, or channels_first=True",
        ),
        (np.zeros((1, 65), np.float32), r"channels seem to be first; give x\.T"),
        (np.zeros((9, 4000), np.float32), "1 to 64 channels, not 4000"),
        (np.ones(9, np.int64), "the dtype int64, which is not supported"),
    ],
)
def test_audio_that_is_refused(audio, words):
    with pytest.raises(AlphaMFError, match=words):
        run(audio)


@pytest.mark.parametrize(
    "rate", [0, -8000, 999, 768_001, 10**30, 8000.5, 999.0, np.nan, np.inf, "8000", 8000j]
)
@pytest.mark.parametrize("model", [TINY, "auto"], ids=["given", "auto"])
def test_rates_that_are_refused(rate, model):
    words = "the rate must be (from 1000 to 768000|a whole number of) Hz, not "
    with pytest.raises(AlphaMFError, match=words):
        denoise(sound(100), rate, QUICK, model=model)
    with pytest.raises(AlphaMFError, match=words):
        list(denoise_stream([sound(100, 1)], rate, QUICK, model=model))


def test_kinds_of_rates_and_samples_that_are_taken():
    expected = run(sound(500))
    for rate in (float(RATE), np.float32(RATE)):
        np.testing.assert_array_equal(run(sound(500), rate).audio, expected.audio)
    np.testing.assert_array_equal(run(sound(500), np.int32(RATE)).audio, expected.audio)
    np.testing.assert_array_equal(run(sound(500).tolist()).audio, expected.audio)


FULL = {"int8": 2**7, "uint8": 2**7, "int16": 2**15, "int32": 2**31}


@pytest.mark.parametrize("kind", FULL)
@pytest.mark.parametrize("channels", [0, 2])
def test_integers_are_scaled_and_make_integers(kind, channels):
    full, middle = FULL[kind], 128 * (kind == "uint8")
    steps = (np.rint(sound(900, channels).astype(np.float64) * full / 4) + middle).astype(kind)
    expected = run(((steps.astype(np.float64) - middle) / full).astype(np.float32))
    found = run(steps)
    for one, other in zip(found[:2], expected[:2], strict=True):
        assert (one.dtype, one.shape) == (np.dtype(kind), steps.shape)
        np.testing.assert_array_equal(one, np.rint(np.float64(full) * other) + middle)
    np.testing.assert_array_equal(found.gain, expected.gain)


@pytest.mark.parametrize("kind", FULL)
def test_integers_beyond_their_range_are_limited(kind):
    loud = np.float32([-2, -1.001, 1, 2])
    limits = np.iinfo(kind)
    wanted = np.array([limits.min, limits.min, limits.max, limits.max], kind)
    np.testing.assert_array_equal(from_float(loud, np.dtype(kind)), wanted)


def test_channels_first():
    audio = sound(700, 2)
    expected, found = run(audio), run(audio.T, channels_first=True)
    for one, other in zip(found[:2], expected[:2], strict=True):
        np.testing.assert_array_equal(one, other.T)
        assert one.flags.c_contiguous
    for one, other in zip(found[2:], expected[2:], strict=True):
        np.testing.assert_array_equal(one, other)
    one = run(audio[:, 0], channels_first=True)
    np.testing.assert_array_equal(one.audio, run(audio[:, 0]).audio)
    parts = list(denoise_stream([audio.T], RATE, QUICK, model=TINY, channels_first=True))
    np.testing.assert_array_equal(np.concatenate([p.audio for p in parts], axis=1), found.audio)
    with pytest.raises(AlphaMFError, match="channels seem to be last; leave out channels_first"):
        run(audio, channels_first=True)
    with pytest.raises(AlphaMFError, match=r"channels seem to be first; give x\.T"):
        list(denoise_stream([audio.T], RATE, QUICK, model=TINY))


@pytest.mark.slow
def test_memory_grows_with_the_result_alone():
    held, peaks = [], []
    for seconds in (24, 48):
        audio = sound(seconds * RATE, 1)
        tracemalloc.start()
        found = run(audio)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        held.append(sum(np.asarray(field).nbytes for field in found))
    assert peaks[1] - peaks[0] < 1.1 * (held[1] - held[0])


def test_more_channels_where_they_are_asked_for():
    audio = np.repeat(sound(100, 1), 65, axis=1)
    with pytest.raises(AlphaMFError, match="max_channels"):
        run(audio)
    assert run(audio, max_channels=65).audio.shape == audio.shape


def test_presets_by_name():
    audio = sound(500)
    for name in ("plain", PRESETS["plain"]):
        with Stream(RATE, 1, name, model=TINY) as stream:
            assert stream.settings == PRESETS["plain"]
    expected = run(audio, settings=PRESETS["fast"]).audio
    np.testing.assert_array_equal(run(audio, settings="fast").audio, expected)


def test_strength_replaces_that_of_the_preset():
    audio = sound(500)
    expected = run(audio, settings=replace(QUICK, dry=0.25)).audio
    np.testing.assert_array_equal(run(audio, strength=0.75).audio, expected)
    with Stream(RATE, 1, "transcription", strength=1, model=TINY) as stream:
        assert stream.settings == replace(PRESETS["transcription"], dry=0.0)
    with pytest.raises(AlphaMFError, match="strength must be from 0 to 1, not 50"):
        run(audio, strength=50)


@pytest.mark.parametrize("channels", [1, 2])
def test_a_file_is_read_with_its_rate(tmp_path, channels):
    path = tmp_path / "talk.wav"
    samples = sound(3000, channels)
    soundfile.write(path, samples[:, 0] if channels == 1 else samples, RATE, "FLOAT")
    expected = run(samples[:, 0] if channels == 1 else samples)
    for name in (path, str(path), BytesIO(path.read_bytes())):
        found = denoise(name, preset=QUICK, model=TINY)
        np.testing.assert_array_equal(found.audio, expected.audio)
        assert found.rate == expected.rate == RATE
    if channels == 2:
        turned = denoise(path, preset=QUICK, model=TINY, channels_first=True)
        np.testing.assert_array_equal(turned.audio.T, expected.audio)
        with pytest.raises(AlphaMFError, match="has 2 channels"):
            denoise(path, preset=QUICK, model=TINY, max_channels=1)


def test_files_that_cannot_be_read_and_rates_that_are_one_too_many_or_missing(tmp_path):
    path = tmp_path / "talk.wav"
    with pytest.raises(AlphaMFError, match=r"talk\.wav does not exist"):
        denoise(path)
    path.write_bytes(b"not a recording")
    with pytest.raises(AlphaMFError, match=r"talk\.wav"):
        denoise(path)
    with pytest.raises(AlphaMFError, match=r"talk\.wav, which has its own rate; leave out rate"):
        denoise(path, RATE)
    with pytest.raises(AlphaMFError, match=r"the rate of samples must be given, in Hz"):
        denoise(sound(100))


@pytest.mark.parametrize("call", [denoise, denoise_stream, Stream])
@pytest.mark.parametrize("name", ["sr", "samplerate", "sample_rate"])
def test_the_rate_by_another_librarys_name(call, name):
    with pytest.raises(TypeError, match=f"{name} is called rate here: rate=8000"):
        call(sound(100), **{name: 8000})


def test_settings_as_keywords():
    audio = sound(3000)
    np.testing.assert_array_equal(
        run(audio, max_attenuation=15).audio,
        run(audio, settings=replace(QUICK, max_attenuation=15.0)).audio,
    )
    assert choose_settings("fast", dereverb=True) == replace(PRESETS["fast"], dereverb=1.0)
    assert choose_settings("fast", dereverb=False) == PRESETS["fast"]


KINDS = ["int8", "uint8", "int16", "int32", "float32"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(900,), (900, 2), (2, 900)])
def test_a_result_is_an_array_and_a_file(kind, shape, tmp_path):
    limits = (-1, 1) if kind == "float32" else (np.iinfo(kind).min, np.iinfo(kind).max)
    audio = np.random.default_rng(0).uniform(*limits, shape).astype(kind)
    found = run(audio, channels_first=shape[0] == 2)
    assert np.asarray(found) is found.audio
    assert np.array(found, float).dtype == float
    name = tmp_path / ("talk.aiff" if kind == "int8" else "talk.wav")
    found.save(name)
    written, rate = soundfile.read(name, dtype="float64", always_2d=True)
    full, middle = FULL.get(kind, 1), 128 * (kind == "uint8")
    wanted = (found.audio.astype(float) - middle) / full
    np.testing.assert_array_equal(written, wanted.T if shape[0] == 2 else wanted.reshape(900, -1))
    assert rate == RATE


def test_a_result_is_saved_in_the_format_of_its_name(tmp_path):
    found = run(sound(900))
    found.save(tmp_path / "talk.flac")
    assert soundfile.info(tmp_path / "talk.flac").subtype == "PCM_24"
    with pytest.raises(AlphaMFError, match=r"talk\.txt is not a known audio format"):
        found.save(str(tmp_path / "talk.txt"))


@pytest.mark.parametrize("dry", [0.0, 0.5])
def test_a_notebook_shows_players_before_and_after(dry):
    audio = np.rint(sound(900) * 2**13).astype(np.int16)
    found = run(audio, settings=replace(QUICK, dry=dry))
    page = found._repr_html_()
    assert re.findall(r"<p>(\w+)<br>", page) == ["Before", "After"]
    sounds = [
        soundfile.read(BytesIO(b64decode(data)), dtype="int16")[0]
        for data in re.findall(r'base64,([^"]+)"', page)
    ]
    np.testing.assert_allclose(sounds[0], audio, atol=1)
    np.testing.assert_allclose(sounds[1], found.audio, atol=1)


def test_a_stream_takes_blocks_in_one_axis():
    blocks = [sound(100), sound(50, seed=1)]
    found = stream(blocks)
    for one, other in zip(found, stream([each[:, None] for each in blocks]), strict=True):
        np.testing.assert_array_equal(one, other[:, 0] if other.ndim == 2 else other)
    assert found[0].shape == found[1].shape == (150,)
    with pytest.raises(AlphaMFError, match=r"shape \(samples,\) or \(samples, 1\), not \(\)"):
        list(denoise_stream([np.float32(0)], RATE, QUICK, model=TINY))


@pytest.mark.parametrize("blocks", [[], [np.zeros((0, 1), np.float32)]], ids=["none", "empty"])
@pytest.mark.parametrize("model", [TINY, "auto"], ids=["given", "auto"])
def test_a_stream_without_samples(blocks, model):
    with pytest.raises(AlphaMFError, match="no samples"):
        list(denoise_stream(blocks, RATE, QUICK, model=model))


# Strength


@pytest.mark.parametrize("channels", [0, 2])
def test_dry_is_the_input(channels):
    audio = sound(3000, channels)
    np.testing.assert_array_equal(run(audio, settings=replace(QUICK, dry=1.0)).audio, audio)


@pytest.mark.parametrize("decibels", [0.0, 1.0, 12.0])
def test_attenuation_has_a_limit(decibels):
    audio = sound(3000)
    free, held = run(audio), run(audio, settings=replace(QUICK, max_attenuation=decibels))
    least = 10 ** (-decibels / 20)
    np.testing.assert_allclose(held.gain, np.maximum(free.gain, np.float32(least)), rtol=1e-6)
    if decibels == 0:
        np.testing.assert_allclose(held.audio, audio, atol=1e-6)
    # Weights that are gains lose no more than the least of them, up to what frames share.
    assert held.audio @ audio >= 0.99 * least * (audio @ audio)


# Symmetries


@pytest.mark.parametrize("channels", [0, 2])
@pytest.mark.parametrize("rate", [8000, 44100])
def test_silence_stays_silence(channels, rate):
    silence = np.zeros((3000, channels) if channels else 3000, np.float32)
    out = run(silence, rate)
    assert not out.audio.any()
    assert not out.noise.any()
    assert not out.gain_std.any()
    assert np.isfinite(out.gain).all()


@pytest.mark.parametrize("sampler", sorted(HYPERPARAMETERS))
def test_seeds(sampler):
    audio, choice = sound(3000), replace(QUICK, sampler=sampler)
    first = run(audio, settings=choice, seed=1)
    for one, other in zip(first[:4], run(audio, settings=choice, seed=1)[:4], strict=True):
        np.testing.assert_array_equal(one, other)
    assert (run(audio, settings=choice, seed=2).audio != first.audio).mean() > 0.9


# Long input


@pytest.mark.slow
def test_joins_cannot_be_heard(monkeypatch):
    """A slow tone stays as smooth where segments meet as elsewhere, which fading is needed for."""
    tone = np.sin(2 * np.pi * 50 * np.arange(35 * RATE) / RATE).astype(np.float32)
    step = SEGMENT_SECONDS * RATE // FRAME.hop_length * FRAME.hop_length
    overlap = round(OVERLAP_SECONDS * RATE)

    def bends():
        """Return the largest second difference where a fade begins or ends, and elsewhere."""
        bend = np.abs(np.diff(run(tone).audio, 2))
        edges = [edge for join in (step, 2 * step) for edge in (join, join + overlap)]
        near = np.zeros(len(bend), bool)
        for edge in edges:
            near[edge - 50 : edge + 50] = True
        bend[:RATE] = bend[-RATE:] = 0  # the tone's own ends
        return bend[near].max(), bend[~near].max()

    at_joins, elsewhere = bends()
    assert at_joins < 2 * elsewhere
    monkeypatch.setattr("alphamf.denoising.segments.fade_in", lambda audio, before: None)
    assert bends()[0] > 5 * elsewhere


def test_a_stream_is_read_no_further_than_needed():
    read = 0

    def blocks():
        nonlocal read
        while True:
            read += 1
            yield sound(RATE, 1, seed=read)

    segments = denoise_stream(blocks(), RATE, QUICK, model=TINY)
    next(segments)
    first = read
    next(segments)
    assert first <= SEGMENT_SECONDS * 1.5 + 2
    assert read - first == SEGMENT_SECONDS


# Other rates


def test_above_the_dictionarys_band():
    """At 48 kHz the gain above 4 kHz is the same at every frequency: that of the band's top."""
    rate = 48000
    out = run(sound(rate // 2), rate)
    assert out.frequencies[-1] == rate / 2
    above = out.gain[0, out.frequencies >= RATE / 2]
    np.testing.assert_allclose(above, np.broadcast_to(above[:1], above.shape), atol=1e-6)
    low, high = (int(share * (FRAME.n_fft // 2)) * RATE / FRAME.n_fft for share in BAND_TOP)
    top = out.gain[0, (out.frequencies >= low) & (out.frequencies <= high)]
    assert (above[0] >= top.min(0) - 1e-6).all()
    assert (above[0] <= top.max(0) + 1e-6).all()
    np.testing.assert_allclose(above[0], top.mean(0), atol=1e-5)
    assert above[0].max() > 2 * above[0].min()  # it does follow


@pytest.mark.parametrize("rate", [8000, pytest.param(44100, marks=pytest.mark.slow)])
def test_the_gain_is_in_time(rate):
    """The gain opens around bursts of what the dictionary knows, as much before as after."""
    centres = 0.3 + 0.4 * np.arange(20)
    time = np.arange(round((centres[-1] + 0.3) * rate)) / rate
    envelope = np.exp(-0.5 * ((time[:, None] - centres) / 0.03) ** 2).sum(1)
    audio = 0.01 * np.random.default_rng(0).standard_normal(len(time))
    audio += envelope * np.sin(2 * np.pi * 625 * time)
    choice = Settings(sampler="em", steps=40, keep=20, noise_rank=1, alpha_noise=2.0)
    out = run(audio, rate, choice, model=peaks(10))
    row = out.gain[0, np.argmin(np.abs(out.frequencies - 625))]
    offsets = []
    for centre in centres:
        open_at = out.frame_times[(np.abs(out.frame_times - centre) < 0.2) & (row > 0.5)]
        offsets.append((open_at[0] + open_at[-1]) / 2 - centre)
    assert abs(np.mean(offsets)) < 0.003  # frames are 4 ms apart


# What it is for


def test_a_recording_that_begins_and_ends_in_a_hum_does_so_as_quietly_as_its_pauses():
    """Without mirror images, the hum is 9 dB louder at the start, and 15 dB at the end."""
    rate = 8000
    time = np.arange(3 * rate) / rate
    hum = sum(np.sin(2 * np.pi * 50 * k * time + k) / k for k in range(1, 21))
    vowel = sum(np.sin(2 * np.pi * 140 * k * time) / k for k in range(1, 12))
    vowel *= np.sin(2 * np.pi * 2 * time) ** 2 * (1 < time) * (time < 2)
    out = denoise((0.04 * hum + 0.3 * vowel).astype(np.float32), rate, "fast").audio

    def level(begin, end):
        return 10 * np.log10(np.mean(out[int(begin * rate) : int(end * rate)] ** 2))

    assert level(0, 0.05) < level(0.3, 0.8) + 4
    assert level(2.95, 3) < level(2.3, 2.8) + 4


def test_a_chain_that_diverges(monkeypatch):
    monkeypatch.setitem(HYPERPARAMETERS, "sgld", {"step_size": 1e39})
    with pytest.raises(AlphaMFError, match="the SGLD chain diverged at step") as caught:
        run(sound(3000), settings=replace(QUICK, sampler="sgld"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("rate", [16000, pytest.param(8000, marks=pytest.mark.slow)])
def test_the_sample_gets_cleaner(rate):
    """With the fast preset and a shipped dictionary, by more than two decibels."""
    clean, noisy = (
        soundfile.read(DATA / f"sample-{kind}.wav", dtype="float32")[0]
        for kind in ("clean", "noisy")
    )
    clean, noisy = (resample(audio, 16000, rate) for audio in (clean, noisy))
    out = denoise(noisy, rate, PRESETS["fast"]).audio
    assert si_sdr(clean, out) > si_sdr(clean, noisy) + 2


@pytest.mark.parametrize("change", [{"chains": 10**6}, {"noise_rank": 10**9}, {"chains": 10**30}])
def test_settings_beyond_the_memory_are_refused_before_they_take_any(change):
    sound = np.random.default_rng(0).standard_normal(4000)
    name, value = next(iter(change.items()))
    with pytest.raises(AlphaMFError, match=rf"{name} = {value} .*would need [\d,]+ GB of memory"):
        denoise(sound, RATE, replace(QUICK, **change))


def test_the_need_of_memory_is_counted_from_settings_and_length(monkeypatch):
    power, settings = np.ones((65, 100), np.float32), replace(QUICK, chains=100)
    monkeypatch.setattr(machine, "total_memory", lambda: 4 * 100 * 6 * 130 * 101)
    with pytest.raises(AlphaMFError, match="chains = 100 "):
        check_memory(power, TINY, settings)
    check_memory(power[:, :50], TINY, settings)
    check_memory(power, TINY, replace(settings, chains=50))
    monkeypatch.setattr(machine, "total_memory", lambda: None)
    check_memory(power, TINY, settings)
