"""Denoising within 40 ms: on time, the same for all chunks, and useful from the start."""

from concurrent.futures import CancelledError
from dataclasses import replace
from threading import Event

import numpy as np
import pytest
import soundfile

from alphamf import PRESETS, AlphaMFError, Stream
from alphamf.audio.resample import resample
from alphamf.denoising.weights import find_online
from alphamf.native import engine
from alphamf.scores.score import si_sdr
from tests.support.places import DATA

THROUGH = replace(PRESETS["fast"], max_attenuation=0.0)


def noise(seconds, rate=8000, channels=1, seed=0):
    rng = np.random.default_rng(seed)
    return (0.1 * rng.standard_normal((int(seconds * rate), channels))).astype(np.float32)


def fed(audio, rate, size=0, **options):
    stream = Stream(rate, audio.shape[1], latency="low", **options)
    chunks = [audio[k : k + size] for k in range(0, len(audio), size)] if size else [audio]
    return np.concatenate([*(stream.process(chunk) for chunk in chunks), stream.flush()])


def level(audio):
    return 10 * np.log10(np.mean(audio.astype(float) ** 2) + 1e-20)


@pytest.mark.parametrize("rate", [8000, 11025, 16000, 44100, 48000])
def test_sound_is_out_within_forty_milliseconds_and_in_its_place(rate):
    audio = noise(0.3, rate)
    stream = Stream(rate, 1, THROUGH, latency="low")
    assert stream.latency <= 0.0401
    out, fewest = [], 0
    for k in range(0, len(audio), 10):
        out.append(stream.process(audio[k : k + 10]))
        behind = k + len(audio[k : k + 10]) - sum(map(len, out))
        fewest = max(fewest, behind)
    assert fewest <= stream.latency * rate
    out.append(stream.flush())
    # Nothing may be taken away: what comes out is what came in.
    np.testing.assert_allclose(np.concatenate(out), audio, atol=1e-6)


def test_without_a_compiler_one_sentence_says_so(monkeypatch):
    monkeypatch.setattr(engine, "AVAILABLE", False)
    with pytest.raises(AlphaMFError, match=r"without a C compiler .* no low latency; install"):
        Stream(8000, 2, latency="low")


def test_speech_is_better_for_it():
    clean, rate = soundfile.read(DATA / "sample-clean.wav", dtype="float32")
    noisy = soundfile.read(DATA / "sample-noisy.wav", dtype="float32")[0]
    done = fed(noisy[:, None], rate)[:, 0]
    assert si_sdr(clean, done) > si_sdr(clean, noisy) + 2


def test_the_preset_plain_is_the_chain_alone():
    noisy, rate = soundfile.read(DATA / "sample-noisy.wav", dtype="float32")
    noisy = noisy[:rate, None]
    plain, whole = (fed(noisy, rate, preset=PRESETS[name]) for name in ("plain", "fast"))
    assert np.abs(plain - whole).max() > 0.01
    weights = replace(find_online(rate), causal=None, causal_second_stage=None)
    np.testing.assert_array_equal(plain, fed(noisy, rate, model=weights))


def test_noise_is_known_after_half_a_second():
    audio = noise(1)
    out = fed(audio, 8000)
    assert level(out[4000:]) < level(audio[4000:]) - 8


def test_a_louder_noise_is_learnt_within_two_seconds():
    audio = noise(5)
    audio[16000:] *= 10
    out = fed(audio, 8000)
    assert level(out[32000:]) < level(audio[32000:]) - 8


def test_silence_stays_silent_and_teaches_nothing():
    audio = noise(4)
    audio[8000:24000] = 0
    out = fed(audio, 8000)
    assert not out[8700:23600].any()
    assert level(out[25000:]) < level(audio[25000:]) - 8
    assert not fed(np.zeros((4000, 2), np.float32), 8000).any()


def test_loud_and_faint_sound_is_denoised_alike():
    audio = noise(1)
    middle, loud, faint = (fed(audio * np.float32(factor), 8000) for factor in (1, 1e12, 1e-4))
    np.testing.assert_allclose(loud / 1e12, middle, atol=0.02)
    np.testing.assert_allclose(faint * 1e4, middle, atol=0.02)
    assert np.isfinite(fed(audio * np.float32(1e30), 8000)).all()


def test_a_shared_voice_keeps_its_place():
    voice = resample(soundfile.read(DATA / "sample-noisy.wav", dtype="float32")[0], 8000, 8000)
    voice = voice[:16000]
    audio = np.stack([voice, 0.25 * voice], axis=1)
    out = fed(audio, 8000)
    np.testing.assert_allclose(out[:, 1], 0.25 * out[:, 0], atol=1e-6)


def test_segments_tell_the_gain_of_every_frame():
    audio = noise(0.5)
    stream = Stream(8000, 1, latency="low")
    found = [*stream.segments(audio), *stream.rest()]
    frames = sum(len(each.activity) for each in found)
    assert frames >= 0.5 / 0.008
    for each in found:
        assert each.gain.shape == each.gain_std.shape == (1, 257, len(each.activity))
        assert ((each.gain >= 0) & (each.gain <= 1)).all()
    np.testing.assert_allclose(
        np.concatenate([each.audio + each.noise for each in found]), audio, atol=1e-6
    )


def test_it_can_be_cancelled_and_tells_how_far_it_is():
    told, cancel = [], Event()
    stream = Stream(8000, 1, latency="low", progress=told.append, cancel=cancel)
    stream.process(noise(0.2))
    assert told and 0.1 < told[-1] <= 0.2
    cancel.set()
    with pytest.raises(CancelledError):
        stream.process(noise(0.2))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"latency": "low", "jobs": 2}, "latency 'low' works on the CPU with one job only"),
        ({"latency": "low", "device": "cuda"}, "latency 'low' works on the CPU with one job only"),
        ({"latency": "low", "dereverb": True}, "latency 'low' does not support dereverb"),
    ],
)
def test_what_low_latency_cannot_do(options, reason):
    with pytest.raises(AlphaMFError, match=reason):
        Stream(8000, 1, **options)


def band(seconds, low, high, rate=48000):
    """Return noise between two frequencies."""
    count = int(seconds * rate)
    spectrum = np.fft.rfft(np.random.default_rng(int(low)).standard_normal(count))
    places = np.fft.rfftfreq(count, 1 / rate)
    spectrum[(places < low) | (places > high)] = 0
    made = np.fft.irfft(spectrum, count)
    return (made / made.std()).astype(np.float32)


def test_above_the_dictionarys_band_hiss_goes_and_sibilants_stay():
    """Without the network of the bands hiss is 43 dB lower there, as at the top of the band."""
    hiss = 0.02 * band(4, 20, 24000)
    time = np.arange(len(hiss)) / 48000 % 0.5
    sibilant = (0.3 < time) & (time < 0.45)
    spoken = 0.1 * band(4, 150, 3500) * (time < 0.3) + 0.05 * band(4, 4000, 15000) * sibilant
    late, weights = slice(2 * 48000, None), find_online(48000)
    high = np.hanning(2 * 48000), slice(2 * 9000, 2 * 19000)
    levels = {}
    for name, model in (("bands", weights), ("one", replace(weights, causal_high_band=None))):
        quiet = fed(hiss[:, None], 48000, model=model)[late, 0]
        below = [level(np.abs(np.fft.rfft(x * high[0]))[high[1]]) for x in (quiet, hiss[late])]
        loud = fed((spoken + hiss)[:, None], 48000, model=model)[late, 0][sibilant[late]]
        kept = level(loud) - level((spoken + hiss)[late][sibilant[late]])
        levels[name] = below[0] - below[1], kept
    assert levels["bands"][0] < -50 and levels["bands"][1] > -2
    assert levels["bands"][0] < levels["one"][0] - 5
