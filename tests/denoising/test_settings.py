"""Settings that cannot be met raise one sentence that names them."""

import inspect
from dataclasses import FrozenInstanceError, fields, replace

import numpy as np
import pytest
import soundfile

from alphamf import denoise_stream
from alphamf.denoising.api import denoise
from alphamf.denoising.settings import (
    FALLBACK,
    HYPERPARAMETERS,
    METROPOLIS,
    PRESETS,
    UNSUITABLE,
    Settings,
    kernel,
)
from alphamf.denoising.stream import Stream
from alphamf.denoising.stream_options import StreamOptions
from alphamf.errors import AlphaMFError
from alphamf.inference.samplers.registry import SAMPLERS
from alphamf.scores.score import si_sdr
from tests.support.places import DATA

COUNTS = "steps keep thin coarse chains blocks noise_rank".split()
WRONG = [
    *((name, 0) for name in COUNTS),
    ("warm_up", -1),
    ("channels", "mid"),
    ("sampler", "gibbs"),
]
WRONG += [("alpha_speech", 0.4), ("alpha_speech", 2.1), ("alpha_noise", 0.0), ("dry", 1.1)]
WRONG += [("dereverb", -0.1), ("dereverb", 1.5)]


@pytest.mark.parametrize(("name", "value"), WRONG, ids=str)
def test_out_of_range(name, value):
    """What lies beside a range; other values: `tests/test_arguments.py`."""
    with pytest.raises(AlphaMFError, match=name) as caught:
        replace(PRESETS["plain"], **{name: value})
    assert str(value) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_more_is_kept_than_made():
    with pytest.raises(AlphaMFError, match="`keep` must be at most `steps` = 10, not 11"):
        Settings(steps=10, keep=11)
    assert Settings(steps=10, keep=10).keep == 10


def test_presets_and_options_cannot_be_changed():
    for frozen in (PRESETS["fast"], StreamOptions(PRESETS["fast"])):
        with pytest.raises(FrozenInstanceError):
            setattr(frozen, fields(frozen)[0].name, "em")


@pytest.mark.parametrize("name", sorted(HYPERPARAMETERS))
def test_the_denoisers_samplers_are_those_of_the_library(name):
    built = SAMPLERS[name](**HYPERPARAMETERS[name])
    assert kernel(name) == built
    sparse = Settings(sampler=name).speech_prior.shape < 1
    assert sparse == ("bounded gradient" not in built.needs)


@pytest.mark.parametrize("name", sorted(set(SAMPLERS) - set(HYPERPARAMETERS)))
def test_other_samplers_denoise_or_are_refused_in_a_sentence(name):
    needs = set(SAMPLERS[name](1e-6).needs) - {"bounded gradient", "value"}
    if not needs and name not in UNSUITABLE:
        assert Settings(sampler=name).speech_prior.shape == 1
        return
    with pytest.raises(
        AlphaMFError, match=f"the `sampler` '{name}' cannot be used for denoising"
    ) as caught:
        Settings(sampler=name)
    assert "\n" not in str(caught.value)
    assert all(need in str(caught.value) for need in needs)


@pytest.mark.parametrize("name", METROPOLIS)
def test_samplers_that_accept_or_reject_read_all_rows(name):
    with pytest.raises(AlphaMFError, match=f"`blocks` must be 1 for the sampler '{name}'"):
        Settings(sampler=name, blocks=2)


def test_metropolis_samplers_are_those_that_count_acceptances():
    """Of those that denoise: what `Denoised.acceptance` has a third number of."""
    counting = set()
    for name in SAMPLERS:
        try:
            state = kernel(name).init(np.random.default_rng(0), np.ones(3))
        except AlphaMFError:
            continue
        if hasattr(state, "accepted"):
            counting.add(name)
    assert counting == set(METROPOLIS)


@pytest.mark.parametrize("name", METROPOLIS)
def test_their_acceptance_is_the_third_number_also_beside_silence(name):
    audio = np.zeros((8000, 2), np.float32)
    audio[:, 0] = np.random.default_rng(0).standard_normal(8000)
    settings = Settings(
        sampler=name, steps=6, keep=2, warm_up=4, refine=False, learn_channel=False, noise_rank=2
    )
    found = denoise(audio, 8000, settings).acceptance
    assert len(found) == 3
    # The mean over both channels: 1 of the silent one, and 0, 1/2 or 1 of the other one.
    assert found[2] in (0.5, 0.75, 1.0)
    assert len(denoise(audio, 8000, replace(settings, sampler="em")).acceptance) == 2


def test_a_sampler_that_is_registered_denoises(monkeypatch):
    monkeypatch.setitem(SAMPLERS, "mine", SAMPLERS["sgld"])
    settings = Settings(sampler="mine", steps=4, keep=2, warm_up=2, refine=False)
    assert kernel("mine") == SAMPLERS["sgld"](**FALLBACK)
    audio = np.random.default_rng(0).standard_normal(4000).astype(np.float32)
    out = denoise(audio, 8000, settings).audio
    assert np.isfinite(out).all() and (out != audio).any()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(HYPERPARAMETERS))
@pytest.mark.parametrize("preset", ["fast", "plain"])
def test_every_sampler_denoises_the_sample(name, preset):
    """At the fallback's step psgld-lagged was thrown off, and left the sample as it was."""
    noisy, rate = soundfile.read(DATA / "sample-noisy.wav", frames=48000, dtype="float32")
    clean, _ = soundfile.read(DATA / "sample-clean.wav", frames=48000, dtype="float32")
    settings = replace(PRESETS[preset], sampler=name)
    gained = si_sdr(clean, denoise(noisy, rate, settings).audio) - si_sdr(clean, noisy)
    assert gained > (5 if preset == "fast" else 1.5)


@pytest.mark.parametrize("latency", ["segments", "low"])
def test_for_transcription_a_part_of_the_input_stays(latency):
    noisy = 0.1 * np.random.default_rng(0).standard_normal(16000).astype(np.float32)
    clean, mixed = (
        np.concatenate([part.audio for part in (*each.segments(noisy), *each.rest())])
        for each in (Stream(8000, 1, name, latency=latency) for name in ("fast", "transcription"))
    )
    np.testing.assert_allclose(mixed, 0.3 * noisy + 0.7 * clean, atol=1e-6)


# Options of a stream -----------------------------------------------------------------------------


DEFAULTS = {each.name: each.default for each in fields(StreamOptions) if each.name != "settings"}
DEFAULTS |= {"preset": "fast", "strength": None, "dereverb": None, "max_attenuation": None}
NO_OPTIONS = {"audio", "blocks", "rate", "channels", "noise_from", "speech_from"}
NOT_OFFERED = {
    denoise: {"latency", "hints"},
    denoise_stream: set(),
    Stream: set(),
}


@pytest.mark.parametrize("function", NOT_OFFERED, ids=lambda function: function.__name__)
def test_keywords_have_the_names_and_defaults_of_the_options(function):
    parameters = inspect.signature(function).parameters
    offered = {name: each.default for name, each in parameters.items() if name not in NO_OPTIONS}
    left_out = NOT_OFFERED[function]
    assert offered == {name: value for name, value in DEFAULTS.items() if name not in left_out}
