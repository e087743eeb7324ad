"""Every argument of every public function: what does not do is refused in one sentence."""

import inspect
import threading
from dataclasses import fields
from fractions import Fraction

import numpy as np
import pytest

import alphamf
from alphamf import AlphaMFError, Dictionary, Settings, Stream, Weights
from alphamf.audio.stft import Frame
from alphamf.denoising.hints import Hints
from alphamf.training.dictionary.api import train
from tests.support.places import DATA

RATE = 8000
TINY = Dictionary(np.full((33, 2), 1 / 33, np.float32), 1.2, RATE, Frame(64, 32))
QUICK = Settings(sampler="em", warm_up=0, steps=2, keep=1, noise_rank=2)
SOUND = np.random.default_rng(0).standard_normal((800, 1)).astype(np.float32)
GAPS = np.ma.masked_array(SOUND, SOUND > 1)
CONTAINERS = {"Agreement", "Denoised", "Segment", "Separated", "SpeechRange", "Tail"}
"""What holds results, and is never asked for an argument."""


class Opaque:
    """What has nothing that an argument needs, and breaks where it is shown."""

    def __repr__(self):
        raise RuntimeError("no words")


def streamed(**options):
    with Stream(**options) as stream:
        return np.concatenate([stream.process(SOUND), stream.flush()])


def chunk_of(method):
    def call(**options):
        with Stream(RATE, 1, QUICK, model=TINY) as stream:
            return list(getattr(stream, method)(**options))

    return call


def factorized(**settings):
    return alphamf.AlphaMF(**settings).fit(SOUND.reshape(40, 20) ** 2)


BASICS = {"rate": RATE, "preset": QUICK, "model": TINY}
CALLS = {
    "denoise": (alphamf.denoise, {"audio": SOUND, **BASICS}),
    "denoise_stream": (
        lambda **options: list(alphamf.denoise_stream(**options)),
        {"blocks": [SOUND], **BASICS},
    ),
    "Stream": (streamed, {"channels": 1, **BASICS}),
    "Stream.process": (chunk_of("process"), {"chunk": SOUND}),
    "Stream.segments": (chunk_of("segments"), {"chunk": SOUND}),
    "Settings": (Settings, {}),
    "Weights": (Weights, {"dictionary": TINY}),
    "Dictionary": (
        Dictionary,
        {"basis": TINY.basis, "alpha": 1.2, "rate": RATE, "frame": Frame(64, 32)},
    ),
    "AlphaMF": (factorized, {"steps": 4, "draws": 2}),
    "separate": (
        alphamf.separate,
        {"audio": SOUND, "rate": RATE, "sources": {"a": TINY, "b": 1}},
    ),
    "load": (alphamf.load, {"model": "speech-8k"}),
    "train": (train, {"paths": [DATA / "sample-clean.wav"], "rank": 2, "steps": 1}),
    "speech_ranges": (
        alphamf.speech_ranges,
        {"activity": np.full(9, 0.9), "frame_times": np.arange(9) / 50},
    ),
}

HUGE = 10**400
NOT_A_NUMBER = [None, True, np.True_, "5", b"5", 5j, np.nan, [3], np.array([1, 2]), Opaque(), HUGE]
COUNT = [*NOT_A_NUMBER, -1, 2.5, np.float64(3), Fraction(3)]
ANY_COUNT = [value for value in COUNT if value is not HUGE]  # as many as time or memory allow
REAL = [*NOT_A_NUMBER, -1, np.inf, Fraction(1, 2)]
FLAG = [None, 1, 0.0, "yes", np.nan, np.array([True, False]), Opaque()]
WORD = [None, True, 5, np.nan, b"x", "", "neither", [], np.array([1, 2]), Opaque()]
FILE = [None, True, 5, np.nan, b"x", "", "no/such\0file", "no such", [], np.array([1, 2]), Opaque()]
FUNCTION = [True, 5, np.nan, "print", [], np.array([1, 2]), Opaque()]
ARRAY = [None, True, "x", Opaque(), {}, GAPS, [[1.0], [1.0, 2.0]], np.full((9, 1), np.nan)]
ARRAY += [np.ones((9, 1), bool), np.ones((9, 1), complex), 10**400]
STRETCHES = [None, True, 5, "ab", [3], [(1, 2, 3)], [(None, 1)], [(np.nan, 1)], [(0, HUGE)]]
STRETCHES += [Opaque(), [(-1, 0.1)], [(0, np.inf)], [("a", "b")]]
OBJECT = [True, 5, np.nan, "x", b"x", [], np.array([1, 2]), Opaque()]

BAD = {
    "audio": ARRAY,
    "chunk": ARRAY,
    "blocks": [None, True, 5, np.nan, "x", Opaque(), [None], [GAPS], [5.0], []],
    "rate": COUNT,
    "preset": [*OBJECT, None],
    "strength": [value for value in REAL if value is not None],
    "model": FILE,
    "seed": ANY_COUNT,
    "device": WORD,
    "jobs": [*COUNT, 0],
    "max_channels": [*ANY_COUNT, 0],
    "channels": [value for value in [*COUNT, 0] if value is not None],
    "channels_first": FLAG,
    "noise_from": STRETCHES,
    "speech_from": STRETCHES,
    "progress": FUNCTION,
    "cancel": FUNCTION,
    "latency": WORD,
    "hints": OBJECT,
    "Settings.channels": WORD,
    "sampler": WORD,
    "alpha_speech": [value for value in REAL if value is not None],
    "alpha_noise": REAL,
    "prior_speech": OBJECT,
    "prior_noise": [*OBJECT, None],
    "prior_noise_basis": [*OBJECT, None],
    "learn_channel": FLAG,
    "narrow": FLAG,
    "refine": FLAG,
    "dry": REAL,
    "dereverb": [value for value in REAL if value is not None and value is not True],
    "Settings.dereverb": REAL,
    "max_attenuation": [v for v in REAL if v is not None and v is not HUGE and v is not np.inf],
    "dictionary": [*OBJECT, None],
    "basis": [*ARRAY, TINY.basis.tolist(), np.ones((33, 2), int)],
    "alpha": REAL,
    "frame": [*OBJECT, None, (64, 32), Frame(64.0, 32), Frame(64, None), Frame(HUGE, 32)],
    "about": [*OBJECT, None],
    "above": [value for value in ARRAY if value is not None],
    "bands": COUNT,
    "name": [value for value in OBJECT if not isinstance(value, str)],
    "paths": [None, True, 5, b"a.wav", [None], [5], [b"a.wav"], ["a\0b"], [], Opaque()],
    "rank": [*COUNT, 0],
    "context": [*COUNT, 0],
    "train.rate": [value for value in COUNT if value is not None],
    "train.steps": ANY_COUNT,
    "seconds": REAL,
    "voices": WORD,
    "skipped": FUNCTION,
    "activity": ARRAY,
    "frame_times": ARRAY,
}
for each in "AlphaMF.steps draws AlphaMF.chains AlphaMF.blocks".split():
    BAD[each] = [*ANY_COUNT, 0]
BAD |= dict.fromkeys(("prior_activations", "prior_components"), OBJECT)
BAD |= {"n_components": [*COUNT, 0], "random_state": [v for v in ANY_COUNT if v is not None]}
BAD["sources"] = [*OBJECT, None, {}, {"a": 1}, {"a": None, "b": 1}, {"a": 1.5, "b": 1}]
BAD["sources"] += [{"a": each, "b": 1} for each in ((1, 9), "no such", GAPS, [], np.array(["x"]))]
BAD["sources"] += [{5: 1, 6: 1}]
for each in "steps keep thin warm_up coarse chains blocks noise_rank".split():
    BAD[f"Settings.{each}"] = ANY_COUNT
NETWORKS = "refiner second_stage dereverberator high_band causal causal_second_stage"
BAD |= dict.fromkeys([*NETWORKS.split(), "causal_high_band"], OBJECT)

WORDS = {"chunk": ("audio",), "blocks": ("audio", "blocks"), "paths": ("paths", "files")}
"""What a sentence calls an argument, where that is not its name."""

UNCHECKED = {"Dictionary.origin"}
"""What only `load` gives."""

WHOLE_NUMBERS = {"rate": RATE, "seed": 3, "steps": 90, "bands": 0}
WHOLE_NUMBERS |= dict.fromkeys("max_channels noise_rank rank n_components draws".split(), 2)
ONES = "channels jobs keep thin warm_up coarse chains blocks context"
WHOLE_NUMBERS |= dict.fromkeys(ONES.split(), 1)
REALS = {"dry": 0.5, "dereverb": 0.0, "max_attenuation": 12.0, "seconds": 1.0}
REALS |= {"alpha_noise": 1.5, "alpha": 1.5}
FLAGS = dict.fromkeys(("channels_first", "narrow", "refine"), False) | {"learn_channel": True}
KINDS = (
    ((np.int16, np.uint32, np.int64), WHOLE_NUMBERS),
    ((np.float32, np.float64, np.float16), REALS),
    ((np.bool_,), FLAGS),
)


def arguments(call):
    """Return the names of the arguments of a public callable."""
    owner, _, method = call.partition(".")
    subject = getattr(alphamf, owner)
    if method:
        subject = getattr(subject, method)
    if subject in (Settings, Weights, Dictionary):
        return [field.name for field in fields(subject)]
    return [name for name in inspect.signature(subject).parameters if name != "self"]


def cases():
    for call in CALLS:
        for name in arguments(call):
            if f"{call}.{name}" not in UNCHECKED:
                for k, value in enumerate(BAD.get(f"{call}.{name}", BAD.get(name))):
                    yield pytest.param(call, name, value, id=f"{call}-{name}-{k}")


def test_every_public_callable_is_among_them():
    public = {name for name in alphamf.__all__ if inspect.isroutine(getattr(alphamf, name))}
    public |= {name for name in alphamf.__all__ if inspect.isclass(getattr(alphamf, name))}
    assert public - CONTAINERS - {"AlphaMFError"} == {call.partition(".")[0] for call in CALLS}
    for call in CALLS:
        assert set(CALLS[call][1]) <= set(arguments(call))


def weight(call):
    """Return the marks of a call that is made in earnest: training counts as slow."""
    return [pytest.mark.slow] if call == "train" else []


@pytest.mark.parametrize("call", [pytest.param(call, marks=weight(call)) for call in CALLS])
def test_the_calls_do_otherwise(call):
    function, options = CALLS[call]
    function(**options)


@pytest.mark.parametrize(("call", "name", "value"), list(cases()))
def test_what_does_not_do_is_refused_in_one_sentence(call, name, value):
    function, options = CALLS[call]
    with pytest.raises(AlphaMFError) as caught:
        function(**{**options, name: value})
    said = str(caught.value)
    assert "\n" not in said
    assert len(said) < 250
    words = WORDS.get(name, (name.partition("_")[0],))
    assert any(word in said for word in words), said


def fine():
    for call in CALLS:
        for name in arguments(call):
            if (call, name) in {("Settings", "channels"), ("denoise_stream", "blocks")}:
                continue
            for kinds, values in KINDS:
                for kind in kinds if name in values else ():
                    case = f"{call}-{name}-{kind.__name__}"
                    value = kind(values[name])
                    yield pytest.param(call, name, value, id=case, marks=weight(call))


@pytest.mark.parametrize(("call", "name", "value"), list(fine()))
def test_numbers_of_numpy_are_taken(call, name, value):
    function, options = CALLS[call]
    function(**{**options, name: value})


def test_a_masked_array_without_gaps_and_other_good_values_are_taken():
    whole = alphamf.denoise(SOUND, RATE, QUICK, model=TINY, seed=10**30).audio
    same = alphamf.denoise(
        np.ma.masked_array(SOUND),
        RATE,
        QUICK,
        model=TINY,
        seed=10**30,
        noise_from=np.empty((0, 2)),
        progress=lambda seconds: None,
        cancel=threading.Event(),
    ).audio
    np.testing.assert_array_equal(same, whole)
    Stream(RATE, 1, QUICK, model=TINY, hints=Hints()).close()
