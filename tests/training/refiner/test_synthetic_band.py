"""Voices with a made-up band above 8 kHz."""

import numpy as np
import soundfile

from alphamf.audio.resample import resample
from alphamf.audio.stft import forward
from alphamf.learnt.bands import FULL_BAND
from alphamf.training.refiner import recordings
from alphamf.training.refiner.config import Data
from alphamf.training.refiner.recordings import DROPS, END, FRAME, PLACES, widen_band

RATE = 16000


def voice(seconds=4.0):
    """Return noise in bursts of a quarter of a second, 40 dB above what is between them."""
    t = np.arange(int(seconds * RATE)) / RATE
    loud = np.where(np.sin(2 * np.pi * 2 * t) > 0, 1.0, 0.01)
    return (0.1 * loud * np.random.default_rng(0).standard_normal(len(t))).astype(np.float32)


def levels(sound):
    """Return the mean level in dB of each frequency, and that of each frame above 8 kHz."""
    power = np.abs(forward(sound, FRAME)) ** 2
    return 10 * np.log10(power.mean(1) + 1e-12), 10 * np.log10(power[136:320].mean(0) + 1e-12)


def test_what_was_recorded_stays_and_the_band_above_follows_it():
    made = [widen_band(np.random.default_rng(seed), voice(), RATE) for seed in range(8)]
    plain = resample(voice(), RATE, FULL_BAND)
    frequencies = np.arange(FRAME.bins) * FULL_BAND / FRAME.n_fft
    for sound in made:
        assert sound.shape == plain.shape and sound.dtype == np.float32
        before, _ = levels(plain)
        after, frames = levels(sound)
        known = frequencies < 7000
        np.testing.assert_allclose(after[known], before[known], atol=0.1)
        assert after[frequencies > END + 500].max() < after[known].mean() - 50
        bursts = levels(plain)[1], np.abs(forward(plain, FRAME)[:100]).mean(0)
        assert np.corrcoef(frames, np.log(bursts[1] + 1e-6))[0, 1] > 0.5
    # Softer with the frequency, by what is drawn.
    mean = np.mean([levels(sound)[0] for sound in made], axis=0)
    found = [
        mean[np.searchsorted(frequencies, place)] - mean[80:120].mean() for place in PLACES[1:]
    ]
    wanted = -np.cumsum([np.mean(each) for each in DROPS])[1:]
    np.testing.assert_allclose(found, wanted, atol=8)
    assert not np.array_equal(made[0], made[1])


def test_narrow_voices_are_read_with_the_others(tmp_path):
    for name, rate in (("full", FULL_BAND), ("narrow", RATE), ("noise", FULL_BAND)):
        (tmp_path / name).mkdir()
        for k in range(5):
            sound = resample(voice(1.0), RATE, rate)
            soundfile.write(tmp_path / name / f"{k}.wav", sound, rate)
    data = Data(
        (str(tmp_path / "full"),), (str(tmp_path / "noise"),), narrow=(str(tmp_path / "narrow"),)
    )
    for folder in ("once", "again"):
        (tmp_path / folder).mkdir()
        recordings.prepare_recordings(data, FULL_BAND, tmp_path / folder)
    once, again = (
        recordings.open_recordings(tmp_path / name, "train").voices for name in ("once", "again")
    )
    assert [len(each) for each in once] == [FULL_BAND] * 8
    for one, two in zip(once, again, strict=True):
        np.testing.assert_array_equal(one, two)
    assert levels(once[0])[0][200] < levels(once[-1])[0][200] - 20
