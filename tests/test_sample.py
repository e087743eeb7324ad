"""The sample recording follows from its script, without the speech synthesiser."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
import soundfile

from tests.support.places import DATA


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("make_sample", DATA / "make_sample.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def sample():
    return [
        soundfile.read(DATA / f"sample-{kind}.wav", dtype="int16") for kind in ("clean", "noisy")
    ]


def test_format(script, sample):
    (clean, rate), (noisy, noisy_rate) = sample
    assert rate == noisy_rate == script.RATE
    assert clean.shape == noisy.shape
    assert 4 <= len(clean) / rate <= 8
    files = sorted(DATA.glob("sample-*.wav"))
    assert {soundfile.info(file).subtype for file in files} == {"PCM_16"}
    assert sum(file.stat().st_size for file in files) < 1_000_000
    assert np.abs(noisy.astype(int)).max() < 32767


def test_noisy_is_clean_plus_noise(script, sample):
    (clean, _), (noisy, _) = sample
    remade = script.quantise(script.add_noise(clean / 32768))
    # One step, since elementary functions may differ in their last digit between machines.
    assert np.abs(remade.astype(int) - noisy).max() <= 1


def test_signal_to_noise_ratio(script, sample):
    clean, noisy = (audio / 32768 for audio, _ in sample)
    noise = noisy - clean
    ratio = 10 * np.log10(clean @ clean / (noise @ noise))
    assert ratio == pytest.approx(script.SNR_DB, abs=0.001)


def test_noise_has_both_kinds(script):
    """The fan is Gaussian, the typing is not: its loudest hundredth holds most of its energy."""

    def loudest_share(audio):
        energy = np.sort(audio**2)
        return energy[-len(energy) // 100 :].sum() / energy.sum()

    assert loudest_share(script.fan(100_000)) < 0.15
    assert loudest_share(script.typing(100_000)) > 0.6
