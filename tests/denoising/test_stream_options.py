"""One frozen object holds the options of a stream; the public functions offer them as keywords."""

from __future__ import annotations

import copy
import inspect
import pickle
import threading
from dataclasses import FrozenInstanceError, fields

import pytest

from alphamf import PRESETS, Stream, denoise, denoise_stream
from alphamf.denoising.stream_options import SoundProgress, StreamOptions

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


def test_options_do_not_change():
    options = StreamOptions(PRESETS["fast"])
    with pytest.raises(FrozenInstanceError):
        options.seed = 1


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_of_the_progress_calls_nobody(copied):
    called: list[float] = []
    progress = SoundProgress(called.append, threading.Event())
    progress.add(2.0)
    progress.add(1.0)
    twin = copied(progress)
    twin.add(5.0)
    progress.add(0.5)
    assert called == [2.0, 3.0, 3.5]
