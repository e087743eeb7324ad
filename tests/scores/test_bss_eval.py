"""SDR, SIR and SAR against two toolboxes, against projections written out, and their identities."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import butter, lfilter, sosfilt

from alphamf.errors import AlphaMFError
from alphamf.scores.score import BSSEval, bss_eval, sdr

RATE = 8000


def sounds(seed, samples=RATE):
    """Return three independent sounds: one of bursts, one coloured, one white."""
    burst, coloured, white = np.random.default_rng(seed).random((3, 4, samples)).sum(axis=1) - 2
    burst = lfilter([1], [1, -1.2, 0.8], burst) * (1.1 + np.sin(np.arange(samples) / 700))
    return burst, lfilter([1], [1, -0.9], coloured), white


def cases():
    """Return reference, noise and estimate of several kinds."""
    speech, noise, white = sounds(0)
    delayed = np.concatenate([np.zeros(700), speech[:-700]])
    echo = lfilter(np.exp(-np.arange(300) / 40) * np.cos(np.arange(300)), 1, speech)
    other, din, grain = sounds(1, 3000)
    return {
        "noisy": (speech, noise, speech + noise + 1e-3 * white),
        "half the noise": (speech, noise, speech + 0.5 * noise + 0.1 * white),
        "artefacts": (speech, noise, speech + 0.01 * noise + 2 * white),
        "filtered": (speech, noise, echo + lfilter([0.1, 0, 0.3], 1, noise) + 0.1 * white),
        "reverberation": (speech, delayed, speech + 0.3 * delayed + 0.05 * white),
        "faint noise": (speech, 1e-2 * noise, speech + 1e-2 * noise + 1e-3 * white),
        "buried": (speech, 30 * noise, speech + 20 * noise + white),
        "short": (other, din, other + din + grain),
    }


CASES = cases()


def toolbox(package):
    """Return a package's function; in its order NumPy 2 can solve the equations."""
    found = pytest.importorskip(package, reason=f"the package {package} is not installed")
    if package == "mir_eval":
        return lambda *signals: found.separation.bss_eval_sources(*signals, False)
    return found.bss_eval_sources


@pytest.mark.parametrize(
    "package", ["fast_bss_eval", pytest.param("mir_eval", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("name", sorted(CASES))
def test_scores_of_the_toolboxes(name, package):
    reference, noise, estimate = CASES[name]
    with warnings.catch_warnings():
        # mir_eval.separation is deprecated; the second estimate is perfect, and log(0) warned of.
        warnings.simplefilter("ignore")
        found = toolbox(package)(np.stack([reference, noise]), np.stack([estimate, noise]))
    expected = [score[0] for score in found[:3]]
    assert bss_eval(*CASES[name]) == pytest.approx(expected, rel=1e-6, abs=1e-6)


def written_out(reference, noise, estimate, taps):
    """Project by an orthonormal basis of the delayed signals, whose rank may be deficient."""

    def project(*sources):
        delayed = np.zeros((len(reference) + taps - 1, taps * len(sources)))
        for i, source in enumerate(sources):
            for delay in range(taps):
                delayed[delay : delay + len(source), i * taps + delay] = source
        delayed /= np.linalg.norm(delayed, axis=0)
        basis, values, _ = np.linalg.svd(delayed, full_matrices=False)
        basis = basis[:, values > 1e-12 * values[0]]
        return basis @ (basis.T @ padded)

    padded = np.pad(estimate, (0, taps - 1))
    target, both = project(reference), project(reference, noise)
    ratios = (
        (target, padded - target),
        (target, both - target),
        (both, padded - both),
    )
    return BSSEval(*(10 * np.log10((a @ a) / (b @ b)) for a, b in ratios))


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    taps=st.integers(1, 20),
    samples=st.integers(50, 300),
    level=st.floats(-80, 80),
    seed=st.integers(0, 1000),
)
def test_projections_written_out(taps, samples, level, seed):
    reference, noise, white = sounds(seed, samples)
    estimate = reference + 0.3 * noise + 0.2 * white
    noise = 10 ** (level / 20) * noise
    found = bss_eval(reference, noise, estimate, taps)
    assert found.sdr == sdr(reference, estimate, taps)
    assert found == pytest.approx(written_out(reference, noise, estimate, taps), abs=1e-8)


BAND = butter(8, [1000, 1200], "band", fs=RATE, output="sos")
WAVE = np.sin(0.1 * np.arange(4000)) * np.hanning(4000) ** 4
REFERENCE, NOISE, WHITE = sounds(3, 4000)

SINGULAR = {
    "noise that is the speech": (REFERENCE, -REFERENCE, REFERENCE + 0.1 * WHITE),
    "narrow band": (
        sosfilt(BAND, REFERENCE),
        sosfilt(BAND, NOISE),
        sosfilt(BAND, REFERENCE + 0.5 * NOISE) + 0.01 * WHITE,
    ),
    "narrow band, faint noise": (
        sosfilt(BAND, REFERENCE),
        1e-9 * sosfilt(BAND, NOISE),
        sosfilt(BAND, REFERENCE + 0.5 * NOISE) + 0.01 * WHITE,
    ),
    "pure tone": (WAVE, 0.1 * WHITE, WAVE + 0.1 * WHITE + 0.01 * NOISE),
    "two pure tones": (WAVE, np.roll(WAVE, 20), WAVE + 0.1 * WHITE),
    "clicks": (np.eye(1, 4000, 5)[0], np.eye(1, 4000, 9)[0], np.eye(1, 4000, 5)[0] + 0.1 * WHITE),
}


@pytest.mark.parametrize("name", sorted(SINGULAR))
def test_equations_that_are_singular_to_rounding(name):
    expected = written_out(*SINGULAR[name], taps=64)
    for value, truth in zip(bss_eval(*SINGULAR[name], taps=64), expected, strict=True):
        assert value == pytest.approx(truth, abs=0.1) or min(value, truth) > 50


def test_signals_that_cannot_be_scored():
    sound, noise, other = sounds(0, 500)
    broken = np.where(np.arange(500) == 7, np.nan, sound)
    for signals, message in [
        ((sound, sound - sound, other), "^the noise is silent$"),
        ((sound[:0], sound[:0], sound[:0]), "^the reference is silent$"),
        ((sound, noise, 0 * sound), "^the estimate is silent$"),
        ((sound, broken, other), "^the noise contains values that are not finite$"),
        (
            (sound, noise[:-1], other),
            r"^reference, noise and estimate must have the same shape \(samples,\), "
            r"not \(500,\), \(499,\) and \(500,\)$",
        ),
        ((sound[None], noise[None], other[None]), r"the same shape \(samples,\), not \(1, 500\)"),
    ]:
        with pytest.raises(AlphaMFError, match=message):
            bss_eval(*signals)
    with pytest.raises(AlphaMFError, match="taps must be at least 1, not 0"):
        bss_eval(sound, noise, other, taps=0)


def test_shortest_signals():
    wave = np.array([1.0, -1.0])
    for ratio in bss_eval(wave, np.array([1.0, 1.5]), wave, taps=1):
        assert math.isinf(ratio) or ratio > 200
