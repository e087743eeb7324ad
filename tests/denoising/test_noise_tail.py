"""Alpha of a recording's noise, from where there is no speech."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import soundfile

from alphamf.denoising.api import denoise, denoise_stream
from alphamf.factorization.stable import positive_stable
from tests.support.commands import run
from tests.support.places import DATA


def noisy(alpha: float):
    """Return a sentence after a second and a half of noise, and the rate."""
    speech, rate = soundfile.read(DATA / "sample-clean.wav", frames=40000)
    clean = np.pad(speech, (24000, 0))
    rng = np.random.default_rng(0)
    phi = positive_stable(rng, alpha, np.empty(len(clean)))
    noise = np.sqrt(phi / 2) * rng.standard_normal(len(clean))
    return clean + 0.1 * speech.std() / np.median(np.abs(noise)) * noise, rate


@pytest.mark.parametrize(("alpha", "kind"), [(1.4, "impulsive"), (2.0, "steady")])
def test_alpha_of_the_noise_is_found_between_the_words(alpha, kind):
    audio, rate = noisy(alpha)
    found = denoise(audio, rate, "fast").noise_tail
    assert found.alpha == pytest.approx(alpha, abs=0.12)
    assert found.kind == kind
    louder = denoise(8 * audio, rate, "fast").noise_tail
    assert louder == found


@pytest.mark.slow
def test_a_recording_has_the_sum_of_its_segments():
    audio, rate = noisy(1.4)
    long = np.tile(audio, 6)
    whole = denoise(long, rate, "fast").noise_tail
    parts = [part.noise_tail for part in denoise_stream([long[:, None]], rate, "fast")]
    assert len(parts) > 1
    np.testing.assert_array_equal(sum(part.counts for part in parts), whole.counts)


def test_noise_is_told_with_verbose_and_json(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    audio, rate = noisy(1.4)
    soundfile.write("a.wav", audio, rate, subtype="FLOAT")
    line = run("denoise", "a.wav", "--preset", "fast", "-v").stdout.splitlines()[2]
    assert re.fullmatch(r"  noise: alpha 1\.[345], impulsive", line)
    found = json.loads(run("denoise", "a.wav", "--preset", "fast", "--overwrite", "--json").stdout)
    assert f"  noise: alpha {found['noise']['alpha']:.1f}, {found['noise']['kind']}" == line
    short = json.loads(run("denoise", "a.wav", "--latency", "low", "--overwrite", "--json").stdout)
    assert short["noise"] is None
