"""The sample recording follows from its script, and its denoised version from this package."""

import importlib.util

import numpy as np
import pytest
import soundfile

from alphamf import denoise
from alphamf.scores.score import si_sdr
from tests.support.places import DATA

KINDS = ("clean", "noisy", "denoised")


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("make_sample", DATA / "make_sample.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def sample():
    """Return the samples by kind, as 16-bit integers."""
    return {k: soundfile.read(DATA / f"sample-{k}.wav", dtype="int16")[0] for k in KINDS}


def test_it_is_made_of_the_corpora(script, sample, shared, monkeypatch):
    monkeypatch.setenv("ALPHAMF_DATA", str(shared))
    folder = script.corpora()
    for path in (script.VOICE, script.NOISE):
        if not (folder / path).exists():
            pytest.skip(f"no {path} among the corpora")
    clean = script.quantise(script.sound(folder / script.VOICE))
    noise = script.sound(folder / script.NOISE)
    noisy = script.quantise(script.add_noise(clean / 32768, noise))
    # Decoders and resamplers of other versions may round otherwise.
    for kind, made in (("clean", clean), ("noisy", noisy)):
        assert np.abs(made.astype(int) - sample[kind]).max() <= 2


def test_the_denoised_one_is_what_this_package_makes_of_it(script, sample):
    """To 30 dB, which leaves room for another machine's rounding, and none for another network."""
    clean, noisy, denoised = (sample[kind] / 32768 for kind in KINDS)
    made = denoise(noisy, script.RATE).audio
    assert si_sdr(made, denoised) > 30
    assert si_sdr(clean, denoised) > si_sdr(clean, noisy) + 8
