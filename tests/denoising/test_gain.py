"""The chain of gains: its six links, one after the other, are what the denoiser does."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from alphamf import PRESETS, denoise
from alphamf.denoising import gain
from alphamf.denoising.gain import (
    HUSH_DB,
    NEAR,
    SegmentPosterior,
    correct_speech,
    hush_gain,
    least_gain,
    limit_attenuation,
    mix_dry,
    native_gain,
    posterior_mean,
    refine_gain,
)
from alphamf.denoising.grids import Spectra, grid_of, native_grid
from alphamf.denoising.posterior import Posterior, sample_posterior
from alphamf.denoising.segments import continue_mirrored
from alphamf.denoising.weights import find
from alphamf.learnt.dictionary import choose
from alphamf.tools.machine import one_thread

ROOT = Path(__file__).parents[2]
LINKS = (posterior_mean, refine_gain, native_gain, limit_attenuation, correct_speech, mix_dry)


@pytest.mark.parametrize("refine", [True, False])
def test_the_six_links_in_order_make_the_output(refine):
    sound, rate = soundfile.read(ROOT / "data/sample-noisy.wav", frames=12000, dtype="float32")
    settings = replace(PRESETS["fast"], refine=refine, max_attenuation=25.0, dry=0.1)
    weights, least = find(rate), least_gain(settings)
    model = weights.dictionary
    scale = np.float32(2.0) ** -int(np.frexp(np.abs(sound).max())[1])
    window = model.frame.n_fft
    longer = continue_mirrored(sound[:, None], window)[:, 0]
    spectra = Spectra(longer * scale, rate)
    power = np.abs(spectra.spectrum_on(grid_of(model))) ** 2
    power = power[:, np.ones(power.shape[1], bool)]  # the order of the sums depends on the layout
    with one_thread():
        posterior = sample_posterior(power, model, settings, (0, 0))

    mean, deviation = posterior_mean(posterior)
    refined = refine_gain(power, posterior, weights.refiner if refine else None)
    none = posterior.rows(slice(0))
    segment = [SegmentPosterior(spectra, scale, refined, deviation, mean, none)]
    native, _ = native_gain(segment[0], model)
    limit = np.float32(0) if refine else least  # the second stage has its own
    speech = limit_attenuation(segment, [native], limit, model)
    if refine:
        speech = correct_speech(segment, speech, weights.second_stage, weights, least, np)
    output = mix_dry(sound, speech[0][window:-window] / scale, settings)

    np.testing.assert_array_equal(output, denoise(sound, rate, settings).audio)
    assert np.abs(refined - mean).max() > 0.1 if refine else refined is mean


def test_linked_channels_without_networks_are_filtered_by_the_squares_of_their_gains():
    """Of gains g and means m, the filter of refined ones has g ** .75 * m ** .25, others g ** 2."""
    sound, rate = soundfile.read(ROOT / "data/sample-noisy.wav", frames=16000, dtype="float32")
    model = find(rate).dictionary
    spectra = [Spectra(each, rate) for each in (sound, 0.5 * np.roll(sound, 3))]
    shape = spectra[0].spectrum_on(grid_of(model)).shape
    gains = np.random.default_rng(0).random((2, *shape), dtype=np.float32)
    none = Posterior(*np.zeros((4, 0, shape[1]), np.float32), [1.0, 1.0], draws=1)

    def speech(values, refined):
        members = [
            SegmentPosterior(one, np.float32(1), gain, 0 * gain, gain, none)
            for one, gain in zip(spectra, values, strict=True)
        ]
        return limit_attenuation(members, [*values], np.float32(0), model, refined=refined)

    plain, squared, refined = speech(gains, False), speech(gains**2, True), speech(gains, True)
    np.testing.assert_allclose(plain, squared, atol=1e-5)
    assert np.abs(np.subtract(plain, refined)).max() > 0.01


def test_the_documents_name_the_links_in_their_order():
    names = [link.__name__ for link in LINKS]
    assert re.findall(r"^\d\. `(\w+)`", gain.__doc__, re.M) == names
    table = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| \d \| `(\w+)` \|", table, re.M) == names


@pytest.mark.parametrize(("level", "most"), [(-30.0, HUSH_DB), (-19.0, HUSH_DB / 2), (-10.0, None)])
def test_what_is_left_far_from_speech_is_softened(level, most):
    rng = np.random.default_rng(0)
    native = native_grid(choose("auto", 16000), 16000)
    noisy = rng.standard_normal((2, native.frame.bins, 700)).astype(np.complex64)
    speech = 10 ** (level / 20) * noisy
    found = hush_gain(noisy, speech, native)
    if most is None:
        assert found is None
        return
    np.testing.assert_allclose(found, 10 ** (-most / 20), rtol=1e-3)
    speech[0, :, 350:400] = noisy[0, :, 350:400]  # one of both channels speaks
    near = round(NEAR * 16000 / native.frame.hop_length) - 9
    found = hush_gain(noisy, speech, native)
    assert (found[350 - near : 400 + near] == 1).all()
    np.testing.assert_allclose(found[[0, -1]], 10 ** (-most / 20), rtol=1e-3)


def test_speech_stays_to_the_bit_where_the_rest_of_a_segment_falls_silent(monkeypatch):
    speech, rate = soundfile.read(ROOT / "data/sample-clean.wav", dtype="float32")
    sound = np.pad(speech[: 3 * rate], (0, 6 * rate))
    sound += 0.3 * speech.std() * np.random.default_rng(0).standard_normal(len(sound), np.float32)
    soft = denoise(sound, rate).audio
    monkeypatch.setattr(gain, "HUSH_DB", 0.0)
    before = denoise(sound, rate).audio
    np.testing.assert_array_equal(soft[: 4 * rate], before[: 4 * rate])
    assert np.std(soft[6 * rate :]) < 10 ** (-15 / 20) * np.std(before[6 * rate :])
