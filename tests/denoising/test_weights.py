"""Weights: found once, checked against each other, chosen on the command line."""

import json
from dataclasses import replace

import numpy as np
import pytest

from alphamf.audio.stft import Frame
from alphamf.denoising.weights import find, find_online
from alphamf.errors import AlphaMFError
from alphamf.learnt import dictionary as dictionaries
from tests.support.commands import run

FAST = ("--preset", "fast", "--steps", 4, "--json")


@pytest.fixture
def sample(tmp_path):
    """Half a second of noise at 16 kHz."""
    import soundfile

    path = tmp_path / "a.wav"
    soundfile.write(path, 0.1 * np.random.default_rng(0).standard_normal(8000), 16000)
    return path


@pytest.mark.parametrize("rate", [8000, 16000, 48000])
def test_what_is_shipped_is_found_for_the_rate(rate):
    found = find(rate)
    rates = [each.rate for each in (found.dictionary, found.refiner, found.second_stage)]
    assert rates == [min(rate, 16000)] * 3
    assert find(rate, found) is found


def test_none_is_none_and_takes_the_second_stage_with_it():
    found = find(16000, refiner="none")
    assert found.refiner is None and found.second_stage is None
    assert find(16000, second_stage="none").refiner is not None
    assert find(16000, second_stage="none").second_stage is None


@pytest.mark.parametrize("rate", [8000, 16000, 48000])
def test_low_latency_has_a_network_of_its_own(rate):
    found = find_online(rate)
    assert found.causal.rate == found.dictionary.rate == min(rate, 16000)
    assert found.refiner is None and found.second_stage is None
    assert find_online(rate, refine=False).causal is None
    other = replace(
        found.dictionary, frame=Frame(256, 64), basis=np.ones((387, 3), np.float32), above=None
    )
    assert find_online(rate, other).causal is None
    with pytest.raises(
        AlphaMFError, match=rf"the refiner causal-{min(rate, 16000) // 1000}k \(.*\) does not fit"
    ):
        replace(found, dictionary=other)


def test_low_latency_tells_its_network(sample):
    def told(*words):
        out = sample.with_name("o.wav")
        words = ("denoise", sample, "-o", out, "--overwrite", "--latency", "low", "--json", *words)
        return json.loads(run(*words).stdout)

    result = told()
    assert (result["causal"], result["refiner"]) == ("causal-16k", None)
    assert result["causal_sha256"] == find_online(16000).causal.sha256
    assert told("--network", "none")["causal"] is None
    assert told("--preset", "plain")["causal"] is None


@pytest.mark.slow
def test_a_refiner_of_ones_own_has_no_second_stage_unless_asked_for(tmp_path):
    own = tmp_path / "own.npz"
    find(16000).refiner.save(own)
    assert find(16000, refiner=own).second_stage is None
    both = find(16000, refiner=own, second_stage="second-stage-16k")
    assert both.second_stage.name == "second-stage-16k" and both.refiner.name == "own"


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        (
            {"refiner": "refiner-8k"},
            "refiner-8k \\(8000 Hz, windows of 512 samples\\) does not fit",
        ),
        ({"refiner": "none", "second_stage": "second-stage-16k"}, "there is none"),
        ({"second_stage": "refiner-16k"}, "second stage refiner-16k .*of 1024 .* windows of 256"),
        ({"refiner": "nowhere.npz"}, "the refiner nowhere.npz does not exist"),
        ({"second_stage": "nowhere.npz"}, "the second-stage nowhere.npz does not exist"),
    ],
)
def test_parts_that_do_not_fit_are_refused(choices, sentence):
    with pytest.raises(AlphaMFError, match=sentence):
        find(16000, **choices)


def test_a_refiner_for_other_windows_is_not_chosen():
    model = dictionaries.choose("auto", 16000)
    other = replace(model, frame=Frame(256, 64), basis=np.ones((387, 1)), above=None)
    found = find(16000, other)
    assert found.dictionary is other and found.refiner is None and found.second_stage is None


@pytest.mark.slow
def test_the_command_takes_networks_or_none(sample, tmp_path):
    output = tmp_path / "b.wav"
    report = {}
    for name, options in {
        "auto": (),
        "no second stage": ("--network", "refiner-16k"),
        "no network": ("--network", "none"),
        "shipped": ("--network", "second-stage-16k", "--network", "refiner-16k"),
        "plain with": ("--preset", "plain", "--network", "refiner-16k"),
    }.items():
        arguments = ("denoise", sample, "-o", output, "--overwrite", *FAST, *options)
        line = json.loads(run(*arguments).stdout)
        report[name] = line["refiner"], line["second_stage"], output.read_bytes()
    assert report["auto"][:2] == ("refiner-16k", "second-stage-16k")
    assert report["auto"] == report["shipped"]
    assert report["no second stage"][:2] == ("refiner-16k", None)
    assert report["no network"][:2] == (None, None)
    assert report["plain with"][0] == "refiner-16k"
    assert len({sound for _, _, sound in report.values()}) == 4
