"""Scores of seeded signals by the packages that define them, kept in stored_scores.json.

    python tests/support/stored_scores.py

writes them again, which takes the packages mir-eval, fast-bss-eval and pystoi. Of the numbers
there, those of mir-eval and fast-bss-eval agree to 1e-6 dB.
"""

import json
import warnings
from pathlib import Path

import numpy as np
from scipy.signal import lfilter

STORED = Path(__file__).with_name("stored_scores.json")
RATE = 8000


def sounds(seed, samples=RATE):
    """Return three independent sounds: one of bursts, one coloured, one white.

    They are made of the generator's raw bits, which no version of NumPy changes.
    """
    bits = np.random.PCG64(seed).random_raw((3, 4, samples))
    burst, coloured, white = (bits / 2.0**64 - 0.5).sum(axis=1)
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


def measured(reference, noise, estimate):
    """Return the packages' scores of a case; no STOI of one too short for it."""
    import fast_bss_eval
    import mir_eval
    import pystoi

    sources, estimates = np.stack([reference, noise]), np.stack([estimate, noise])
    with warnings.catch_warnings():
        # mir_eval.separation is deprecated; the second estimate is perfect, and log(0) warned of.
        warnings.simplefilter("ignore")
        slow = mir_eval.separation.bss_eval_sources(sources, estimates, False)
        # Without the permutation it stops at NumPy 2's solve.
        fast = fast_bss_eval.bss_eval_sources(sources, estimates)
    assert list(fast[3]) == [0, 1]
    scores = {
        name: {"mir_eval": float(a[0]), "fast_bss_eval": float(b[0])}
        for name, a, b in zip(("sdr", "sir", "sar"), slow, fast, strict=False)
    }
    if len(reference) >= RATE / 2:
        for name, extended in (("stoi", False), ("estoi", True)):
            score = pystoi.stoi(reference, estimate, RATE, extended)
            scores[name] = {"pystoi": float(score)}
    return scores


if __name__ == "__main__":
    found = {name: measured(*case) for name, case in cases().items()}
    STORED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
