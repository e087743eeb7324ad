"""Faint, steady noise: cells no louder than the pauses of a nearly clean recording."""

import numpy as np
import pytest

from alphamf import denoise
from alphamf.audio import stft
from alphamf.denoising import gain
from alphamf.denoising.gain import MOST_DB, faint_noise_gain
from alphamf.denoising.weights import find_online
from alphamf.learnt.second_stage import frame
from alphamf.native import engine
from tests.support.twin import gains
from tests.support.twin.engine import ReferenceEngine

RATES = [8000, 16000, 48000]


def spoken(rate, seconds=4.0):
    """Return a buzz of .6 s in each second, and where it is: 0 in pauses, apart from the ends."""
    time = np.arange(int(seconds * rate)) / rate
    buzz = sum(np.sin(2 * np.pi * 140 * k * time + k) / k for k in range(1, 27))
    return (0.1 * buzz * (time % 1 < 0.6)).astype(np.float32), time % 1


def hiss(rate, samples, below_db, seed=0):
    """Return noise so many dB below the power of `spoken`."""
    level = np.std(spoken(rate)[0]) * 10 ** (-below_db / 20)
    return level * np.random.default_rng(seed).standard_normal(samples, np.float32)


def offline(spectrum):
    found = faint_noise_gain([spectrum])
    return np.ones(spectrum.shape) if found is None else found


@pytest.mark.parametrize("rate", RATES)
def test_hiss_falls_in_pauses_and_words_stay(rate):
    speech, place = spoken(rate)
    noise = hiss(rate, len(speech), 36)
    windows = frame(rate)
    spectra = [stft.forward(each, windows) for each in (speech + noise, speech, noise)]
    gain = offline(spectra[0])
    assert gain.shape == spectra[0].shape and gain.dtype == np.float32
    assert gain.min() >= 10 ** (-MOST_DB / 20) - 1e-6
    said, rest = (stft.inverse(gain * each, windows, len(speech)) for each in spectra[1:])
    # From .15 s after the words of the last two seconds, when the online floor has had a pause.
    pause = (place > 0.75) & (place < 0.95) & (np.arange(len(place)) > 2 * rate)
    assert np.std(rest[pause]) < 10 ** (-7 / 20) * np.std(noise[pause])
    assert np.std(said - speech) < 10 ** (-30 / 20) * np.std(speech)


CASES = ["loud noise", "quiet pauses", "noise alone", "a tone", "zeros between", "zeros"]


@pytest.mark.parametrize("case", CASES)
def test_other_sound_is_left_as_it_is(case):
    rate = 16000
    speech, _ = spoken(rate)
    tone = 0.1 * np.sin(2 * np.pi * 440 * np.arange(len(speech)) / rate)
    audio = {
        "loud noise": speech + hiss(rate, len(speech), 10),
        "quiet pauses": speech + hiss(rate, len(speech), 56),
        "noise alone": hiss(rate, len(speech), 30),
        "a tone": tone.astype(np.float32) + hiss(rate, len(speech), 60),
        "zeros between": speech,
        "zeros": 0 * speech,
    }[case]
    spectrum = stft.forward(audio, frame(rate))
    gain = offline(spectrum)
    changed = stft.inverse(gain * spectrum, frame(rate), len(audio)) - audio
    ends = slice(rate // 50, -rate // 50)  # a tone begins and ends within a window
    assert np.std(changed[ends]) <= 10 ** (-30 / 20) * np.std(audio[ends])
    if case == "quiet pauses":
        assert np.median(gain[:, 250:]) > 0.99


@pytest.mark.parametrize("rate", [8000, 16000])
def test_fast_leaves_less_of_a_hiss_in_pauses(monkeypatch, rate):
    speech, place = spoken(rate)
    noisy = speech + hiss(rate, len(speech), 30)
    pause = (place > 0.75) & (place < 0.95)

    def left():
        return 20 * np.log10(np.std(denoise(noisy, rate, "fast").audio[pause]))

    found = left()
    monkeypatch.setattr(gain, "MOST_DB", 0.0)
    assert found < left() - 5


@pytest.mark.skipif(not engine.AVAILABLE, reason="the engine was not built")
@pytest.mark.parametrize(("rate", "channels"), [(8000, 1), (16000, 2), (48000, 1)])
def test_the_engine_in_c_does_the_same(monkeypatch, rate, channels):
    """Beyond the first five seconds, after which the older half of the least power is forgotten."""
    weights = find_online(rate)
    speech, _ = spoken(rate, 6.0)
    audio = np.stack([speech + hiss(rate, len(speech), 28, k) for k in range(channels)], axis=1)
    options = {"linked": True, "least": 0.0, "seed": 0}
    models = weights.dictionary, weights.online
    made = [kind(rate, channels, *models, **options) for kind in (engine.Engine, ReferenceEngine)]
    audio = audio[: len(audio) // made[0].hop * made[0].hop]
    found, wanted = (each.process(audio) for each in made)
    apart = np.std(found.speech - wanted.speech)
    assert apart < 1e-4 * np.std(wanted.speech)
    monkeypatch.setattr(gains.FaintNoise, "gain", lambda *_: np.float32(1))
    without = ReferenceEngine(rate, channels, *models, **options).process(audio)
    assert np.std(wanted.speech - without.speech) > 10 * apart
