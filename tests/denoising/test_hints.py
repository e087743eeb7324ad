"""Stretches of noise alone and of speech: what they change, and what is refused."""

import json

import numpy as np
import pytest
import soundfile

from alphamf import AlphaMFError, Settings, Stream, denoise
from alphamf.audio.stft import Frame, forward
from alphamf.denoising.hints import Hints, noise_spectra
from alphamf.learnt.dictionary import Dictionary
from tests.support.commands import QUICK, in_a_process, run

RATE = 8000
TINY = Dictionary(np.full((33, 2), 1 / 33, np.float32), 1.2, RATE, Frame(64, 32))
SHORT = Settings(sampler="em", warm_up=0, steps=6, keep=3, noise_rank=2)


def sound(seconds, channels=1, seed=0):
    rng = np.random.default_rng(seed)
    return 0.1 * rng.standard_normal((int(seconds * RATE), channels)).astype(np.float32)


def of(audio, settings=SHORT, **options):
    return denoise(audio, RATE, settings, model=TINY, **options)


def write(name="a.wav", seconds=3.0, channels=1):
    soundfile.write(name, sound(seconds, channels), RATE, "PCM_16")


def command(*options, code=0):
    return run("denoise", "a.wav", "-o", "b.wav", "--overwrite", *QUICK, *options, code=code)


def samples(name):
    return soundfile.read(name, dtype="float64", always_2d=True)[0]


def test_a_stretch_may_end_where_the_length_is_rounded_to():
    audio = sound(2)[:-40]
    assert len(of(audio, noise_from=[(1.0, 2.0)]).audio) == len(audio)
    with pytest.raises(
        AlphaMFError, match=r"ends at 2.00 s, which is before the end of `noise_from` 1-2.1 s"
    ):
        of(audio, noise_from=[(1.0, 2.1)])


# Noise alone


@pytest.mark.parametrize("limit", [None, 12.0])
def test_noise_alone_becomes_as_soft_as_may_be(limit):
    audio = sound(2)
    found = of(audio, Settings(sampler="em", steps=6, keep=3, max_attenuation=limit),
               noise_from=[(0.5, 1.0)])  # fmt: skip
    least = 0 if limit is None else 10 ** (-limit / 20)
    inside = slice(int(0.52 * RATE), int(0.98 * RATE))
    np.testing.assert_allclose(found.audio[inside], least * audio[inside], atol=1e-7)
    np.testing.assert_allclose(found.audio + found.noise, audio, atol=1e-6)
    frames = (found.frame_times >= 0.5) & (found.frame_times < 1)
    assert found.gain[..., frames].max() == found.gain[..., frames].min() == np.float32(least)
    assert not found.gain_std[..., frames].any() and not found.activity[frames].any()
    assert found.audio[: RATE // 2].any() and found.audio[RATE:].any()


def test_the_way_into_a_stretch_is_a_fade():
    audio = np.ones((2 * RATE, 1), np.float32)
    kept = Hints([(0.5, 1.0)]).fade_curve(0, len(audio), RATE)
    assert np.abs(np.diff(kept)).max() < 0.01
    assert kept[: RATE // 2 + 1].min() == 1 and kept[RATE:].min() == 1


def test_spectra_are_those_of_the_noise():
    """A noise at two frequencies has its power there, in the sound's units."""
    time = np.arange(2 * RATE) / RATE
    noise = sound(2) * 0.01
    noise[:, 0] += 0.3 * np.sin(2 * np.pi * 1000 * time) + 0.1 * np.sin(2 * np.pi * 3000 * time)
    settings = Settings(alpha_noise=2.0, noise_rank=2)
    (found,) = noise_spectra(noise.astype(np.float32), RATE, TINY, settings, 0)
    spectrum = found.sum(axis=1)
    assert found.shape == (33, 2) and (found >= 0).all()
    assert spectrum.argmax() == 8 and 16 + spectrum[16:].argmax() == 24
    assert spectrum[8] / spectrum[24] == pytest.approx(9, rel=0.2)


@pytest.mark.parametrize("alpha", [2.0, 1.7])
@pytest.mark.parametrize("level", [1e-8, 1.0, 1e6])
def test_spectra_are_in_the_sounds_units(alpha, level):
    settings = Settings(alpha_noise=alpha, noise_rank=1)
    (one,), (other,) = (
        noise_spectra(np.float32(scale) * sound(2), RATE, TINY, settings, 0) for scale in (1, level)
    )
    np.testing.assert_allclose(other, one * level**alpha, rtol=1e-3)
    if alpha == 2:
        power = np.abs(forward(sound(2)[:, 0], Frame(64, 32))) ** 2
        # A normal source has Phi = 2.
        assert 2 * one.sum() == pytest.approx(power.mean(axis=1).sum(), rel=0.1)


def test_silent_channels_have_no_spectra():
    noise = np.concatenate([sound(1), np.zeros((RATE, 1), np.float32)], axis=1)
    one, other = noise_spectra(noise, RATE, TINY, SHORT, 0)
    assert one is not None and other is None


@pytest.mark.parametrize("channels", [1, 2])
def test_times_go_on_from_segment_to_segment(channels):
    audio = sound(23, channels)
    stretches = [(0.5, 1.5), (9.8, 10.4), (21.0, 22.5)]
    found = of(audio, noise_from=stretches, speech_from=[(15, 16)], jobs=2)
    quiet = np.abs(found.audio).max(axis=1) == 0
    for start, end in stretches:
        assert quiet[int((start + 0.02) * RATE) + 1 : int((end - 0.02) * RATE)].all()
    assert quiet.sum() < 3.2 * RATE
    sure = (found.frame_times >= 15) & (found.frame_times < 16)
    assert (found.activity[sure] == 1).all()
    np.testing.assert_array_equal(
        found.audio, of(audio, noise_from=stretches, speech_from=[(15, 16)]).audio
    )


def test_a_stream_takes_a_noise_from_elsewhere():
    audio, hints = sound(12), Hints(noise=sound(1, seed=4))
    with Stream(RATE, 1, SHORT, model=TINY, hints=hints) as stream:
        parts = [stream.process(audio[:30000]), stream.process(audio[30000:]), stream.flush()]
    found = np.concatenate(parts)
    assert found.shape == audio.shape
    assert np.abs(found - of(audio).audio).max() > 1e-6


def test_without_stretches_nothing_changes():
    audio = sound(2)
    np.testing.assert_array_equal(of(audio).audio, of(audio, noise_from=[], speech_from=()).audio)
    np.testing.assert_array_equal(of(audio).audio, of(audio, speech_from=[(0, 1)]).audio)


def test_noise_has_the_units_of_its_sound():
    loud, soft = (of(k * sound(2), noise_from=[(0, 1)]).audio for k in (1, 1 / 64))
    np.testing.assert_allclose(64 * soft, loud, atol=1e-4)


def test_silence_teaches_nothing():
    audio = sound(3)
    audio[:RATE] = 0
    np.testing.assert_array_equal(
        of(audio, noise_from=[(0, 1)]).audio[RATE:], of(audio).audio[RATE:]
    )


# The command


def test_stretches_of_the_command(empty):
    write(channels=2)
    command("--noise-from", "0:00-0:00.5,2.5-3", "--noise-from", "1-1.25s")
    out = samples("b.wav")
    for start, end in ((0.02, 0.48), (1.02, 1.23), (2.52, 2.98)):
        assert not out[int(start * RATE) : int(end * RATE)].any()
    assert out[int(0.5 * RATE) : RATE].any()
    found = json.loads(command("--noise-from", "0-1", "--json").stdout)
    assert found["samples"] == 3 * RATE


def test_a_part_has_its_noise_anywhere_before_it(empty):
    write(seconds=4)
    command("--noise-from", "0-0.8,2.5-3", "--start", "2", "--end", "3.5")
    before, after = samples("a.wav"), samples("b.wav")
    np.testing.assert_array_equal(after[: 2 * RATE], before[: 2 * RATE])
    assert not after[int(2.53 * RATE) : int(2.97 * RATE)].any()
    assert after[int(3.05 * RATE) : int(3.4 * RATE)].any()


def test_a_pipe(empty):
    write()
    command("--noise-from", "0-1")
    with open("a.wav", "rb") as file:
        done = in_a_process(
            empty, "denoise", "-", "-o", "c.wav", *QUICK, "--noise-from", "0-1", stdin=file
        )
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(samples("c.wav"), samples("b.wav"))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["0-9"], "a.wav ends at 3.00 s, which is before the end of --noise-from 0-9 s"),
        (["2-1"], "--noise-from 2-1 s: the end must be after the start"),
        (["0-0.1"], "--noise-from 0-0.1 s is too short"),
        (["0-1,0.5-2"], "--noise-from 0-1 s and --noise-from 0.5-2 s overlap"),
        (["0:03"], "--noise-from must be a time range such as"),
        (["0-soon"], "--noise-from must be a time such as"),
    ],
)
def test_stretches_that_are_refused(empty, options, sentence):
    write()
    refused = command("--noise-from", *options, code=2)
    assert sentence in " ".join(refused.stderr.split())
    assert not (empty / "b.wav").exists()
