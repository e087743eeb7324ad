"""Scores against the packages that define them, and the errors that a user can cause."""

import sys

import numpy as np
import pystoi
import pytest
import soundfile
from scipy.signal import lfilter

from alphamf.errors import AlphaMFError
from alphamf.scores.score import pesq, sdr, si_sdr, stoi
from tests.support.places import DATA

RATE = 16000


@pytest.fixture(scope="module")
def speech():
    """Clean and noisy speech."""
    return [soundfile.read(DATA / f"sample-{kind}.wav")[0] for kind in ("clean", "noisy")]


def pairs(speech):
    """Return references and estimates of several kinds."""
    clean, noisy = speech
    rng = np.random.default_rng(0)
    white = rng.standard_normal(6000)
    echo = lfilter(rng.standard_normal(300) * np.exp(-np.arange(300) / 40), 1, clean)
    return {
        "noisy speech": (clean, noisy),
        "filtered speech": (clean, echo + 0.3 * (noisy - clean)),
        "offset": (clean + 0.1, noisy - 0.2),
        "loud and quiet": (1e3 * clean, 1e-3 * noisy),
        "60 dB": (clean, clean + 1e-3 * (noisy - clean)),
        "independent": (white, rng.standard_normal(6000)),
        "short": (white[:300], white[:300] + rng.standard_normal(300)),
        "float32": (clean.astype(np.float32), noisy.astype(np.float32)),
    }


NAMES = sorted(pairs((np.ones(1000), np.ones(1000))))


def test_sdr_of_a_reference_without_a_noise_floor():
    """A faded sine makes the normal equations singular to rounding; the fit must stay a fit."""
    sine = np.sin(0.1 * np.arange(16000)) * np.hanning(16000) ** 4
    noise = np.random.default_rng(0).standard_normal(16000)
    assert -60 < sdr(sine, noise) < 0
    assert sdr(sine, sine + 1e-3 * noise) == pytest.approx(
        10 * np.log10(sine @ sine / (1e-6 * noise @ noise)), abs=1
    )


@pytest.mark.parametrize("name", NAMES)
def test_si_sdr_is_its_definition(speech, name):
    """Means removed, estimate projected on the reference, energies compared."""
    r, e = (np.float64(x) for x in pairs(speech)[name])
    r = r - r.mean()
    e = e - e.mean()
    a = (e @ r) / (r @ r)
    expected = 10 * np.log10(((a * r) @ (a * r)) / ((e - a * r) @ (e - a * r)))
    assert si_sdr(*pairs(speech)[name]) == pytest.approx(expected, abs=1e-9)


def test_perfect_and_hopeless_estimates():
    wave = np.array([1.0, -1.0, 1.0, -1.0])
    assert si_sdr(wave, 2 * wave) == np.inf
    assert si_sdr(wave, np.array([1.0, 1.0, -1.0, -1.0])) == -np.inf


@pytest.mark.parametrize("rate", [8000, 10000, 16000, 44100])
def test_stoi_is_pystois(speech, rate):
    clean, noisy = (audio[:40000] for audio in speech)
    assert stoi(clean, noisy, rate) == pystoi.stoi(clean, noisy, rate)
    # pystoi adds noise of 1e-16 from NumPy's global generator to the extended form.
    assert stoi(clean, noisy, rate, extended=True) == pytest.approx(
        pystoi.stoi(clean, noisy, rate, extended=True), abs=1e-9
    )


@pytest.mark.parametrize("samples", [2, 100, 4000, 6200, 6400])
def test_clip_too_short_for_stoi(speech, samples):
    clean, noisy = (audio[20000 : 20000 + samples] for audio in speech)
    with pytest.raises(AlphaMFError, match=r"STOI needs 0.4 s of speech"):
        stoi(clean, noisy, RATE)


def test_too_little_speech_for_stoi():
    """A second of which only a quarter is within 40 dB of the loudest frame."""
    clean = 1e-6 * np.random.default_rng(0).standard_normal(RATE)
    clean[:4000] *= 1e6
    with pytest.raises(AlphaMFError, match="STOI needs"):
        stoi(clean, clean + 0.1, RATE)


def test_pesq_is_the_packages(speech):
    package = pytest.importorskip("pesq", reason="the package pesq is not installed")
    clean, noisy = speech
    assert pesq(clean, noisy, RATE) == package.pesq(RATE, clean, noisy, "wb")
    clean, noisy = clean[: 8 * RATE], noisy[: 8 * RATE]
    assert pesq(clean, noisy, 8000) == package.pesq(8000, clean, noisy, "nb")


def test_pesq_refuses_what_its_package_cannot_score(speech):
    pytest.importorskip("pesq", reason="the package pesq is not installed")
    clean, noisy = speech
    with pytest.raises(AlphaMFError, match="PESQ cannot score this clip: Buffer needs"):
        pesq(clean[8000:8400], noisy[8000:8400], RATE)
    long = np.tile(clean, 3)
    with pytest.raises(AlphaMFError, match=r"at most 18 s, not 27.4 s"):
        pesq(long, long, RATE)


def test_pesq_needs_its_package(speech, monkeypatch):
    monkeypatch.setitem(sys.modules, "pesq", None)  # the import fails
    with pytest.raises(AlphaMFError, match=r"pip install 'alphamf\[eval\]'"):
        pesq(*speech, RATE)


SCORES = {
    "si_sdr": si_sdr,
    "sdr": sdr,
    "stoi": lambda r, e: stoi(r, e, RATE),
    "estoi": lambda r, e: stoi(r, e, RATE, extended=True),
    "pesq": lambda r, e: pesq(r, e, RATE),
}


@pytest.mark.parametrize("name", sorted(SCORES))
def test_signals_that_cannot_be_scored(name):
    score = SCORES[name]
    sound = np.random.default_rng(0).standard_normal(16000)
    silence = np.zeros(16000)
    broken = sound.copy()
    broken[7] = np.nan
    for reference, estimate, message in [
        (silence, sound, "the reference is silent"),
        (sound, silence, "the estimate is silent"),
        (silence + 0.5, sound, "the reference is silent"),
        (sound, sound[:-1], r"the same shape \(samples,\), not \(16000,\) and \(15999,\)"),
        (sound.reshape(2, -1), sound.reshape(2, -1), r"not \(2, 8000\)"),
        (sound[:0], sound[:0], "the reference is silent"),
        (broken, sound, "the reference contains values that are not finite"),
        (sound, np.where(broken > 0, np.inf, 0), "the estimate contains values"),
    ]:
        with pytest.raises(AlphaMFError, match=message) as caught:
            score(reference, estimate)
        assert "\n" not in str(caught.value)


def test_faint_signals_have_the_ratio_of_loud_ones(speech):
    clean, noisy = speech
    for scale in (1e-170, 1e200):
        assert si_sdr(scale * clean, scale * noisy) == pytest.approx(si_sdr(clean, noisy), abs=1e-9)
