"""The engine in C beside the one in NumPy: the same gains, and the same stream for its user."""

import copy
import ctypes
import os
import pickle
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import soundfile

from alphamf import AlphaMFError
from alphamf.audio.resample import resample
from alphamf.audio.stft import Frame
from alphamf.denoising.grids import nearest_hop
from alphamf.denoising.weights import find_online
from alphamf.factorization import compiled
from alphamf.learnt import network
from alphamf.learnt.bands import COUNT
from alphamf.learnt.causal import (
    ALIGNMENT,
    CausalHighBand,
    CausalNetworks,
    CausalRefiner,
    CausalSecondStage,
)
from alphamf.learnt.dictionary import Dictionary
from alphamf.native import engine
from alphamf.native.engine import Engine
from alphamf.scores.score import si_sdr
from tests.support.places import DATA
from tests.support.twin.engine import ReferenceEngine

if not engine.AVAILABLE:
    pytest.skip("the engine was not built", allow_module_level=True)

OPTIONS = {"linked": True, "least": 0.0, "seed": 0}
ODD = network.Sizes(width=13, hidden=21, blocks=8, maps=3, local=5, deep=3)


def small_models(alpha, sizes=ODD, bins=129, columns=37, rate=8000):
    """Return a dictionary of noise-like spectra, and networks that have not learned anything."""
    rng = np.random.default_rng(0)
    basis = rng.gamma(1.0, 1.0, (3 * bins, columns)).astype(np.float32) + np.float32(0.01)
    dictionary = Dictionary(basis, alpha, rate, Frame(2 * (bins - 1), (bins - 1) // 2), 3)
    if sizes is None:
        return dictionary, CausalNetworks()
    hop = dictionary.frame.n_fft // 8
    frame, short = Frame(8 * hop, hop), Frame(2 * hop, hop)
    refiner, high_band, second_stage = (
        kind(untrained(rng, cells, sizes), rate, windows, 0.85)
        for kind, cells, windows in (
            (CausalRefiner, bins, frame),
            (CausalHighBand, COUNT, frame),
            (CausalSecondStage, short.bins, short),
        )
    )
    return dictionary, CausalNetworks(refiner, second_stage, high_band)


def untrained(rng, cells, sizes):
    """Return random parameters of a network, in half precision."""
    start = network.start(rng, cells, sizes)
    return {
        name: np.float16(value + 0.1 * rng.standard_normal(value.shape)).astype(np.float32)
        for name, value in start.items()
    }


def sound(rate, channels, seconds=1):
    """Return the noisy sample at a rate; further channels are fainter, later and noisier."""
    noisy, own = soundfile.read(DATA / "sample-noisy.wav", dtype="float32")
    one = resample(noisy[: int(own * seconds)], own, rate)
    rng = np.random.default_rng(1)
    return np.stack(
        [
            0.6**k * np.roll(one, 2 * k) + k * 0.01 * rng.standard_normal(len(one), np.float32)
            for k in range(channels)
        ],
        axis=1,
    ).astype(np.float32)


def both(rate, channels, models, audio, **options):
    """Return what both engines make of whole hops."""
    found = []
    for kind in (Engine, ReferenceEngine):
        made = kind(rate, channels, *models, **{**OPTIONS, **options})
        found.append((made, made.process(audio[: len(audio) // made.hop * made.hop])))
    return found


@pytest.mark.parametrize("rate", [1000, 8000, 11025, 16000, 44100, 48000, 192000, 768000])
def test_hops_and_bins_are_those_of_the_grids(rate):
    for dictionary in (find_online(rate).dictionary, small_models(1.0)[0]):
        made = Engine(rate, 1, dictionary, **OPTIONS)
        assert made.hop == nearest_hop(dictionary.frame.n_fft / 8 * rate / dictionary.rate)
        assert (made.bins, made.latency) == (4 * made.hop + 1, 5 * made.hop)


@pytest.mark.parametrize(
    ("rate", "channels", "sizes"),
    [
        (8000, 1, None),
        (8000, 3, ODD),
        (11025, 1, ODD),
        (16000, 2, ODD._replace(deep=1, blocks=1)),
        (18000, 1, ODD),
        (24000, 3, ODD._replace(deep=0)),
        (44100, 1, ODD),
        (44100, 2, None),
        (96000, 2, ODD),
    ],
)
def test_without_a_draw_all_gains_are_the_same(rate, channels, sizes):
    """With alpha of two nothing depends on a random number, of which one bit could tip a scale."""
    audio = sound(rate, channels)
    (ours, found), (_, wanted) = both(rate, channels, small_models(2.0, sizes), audio)
    assert ours.acceptance == 0
    np.testing.assert_allclose(found.speech, wanted.speech, atol=1e-5)
    np.testing.assert_allclose(found.activity, wanted.activity, atol=1e-4)
    level = np.abs(np.diff(wanted.gain, axis=-1)).max()
    assert level > 0.1, "the gains of the case change"
    # Where there is no sound, next to nothing decides which channel's gain is the common one.
    apart = np.abs(found.gain - wanted.gain)
    assert np.quantile(apart[:, : int(7000 * len(apart[0]) * 2 / rate)], 0.99) < 1e-4
    # Above, the networks read the log of a difference of powers, whose digits may cancel.
    assert np.quantile(apart, 0.99) < 1e-3
    # The root of a difference, in which the digits of single precision cancel.
    assert np.quantile(np.abs(found.gain_std - wanted.gain_std), 0.99) < 1e-3


def test_in_a_band_with_sibilants_the_speech_is_the_same_too():
    models = small_models(2.0, bins=257, rate=16000)
    (_, found), (_, wanted) = both(16000, 1, models, sound(16000, 1))
    np.testing.assert_allclose(found.speech, wanted.speech, atol=1e-5)


def test_the_largest_sums_of_a_product_stay_within_their_bits():
    """Where all factors of a column have one sign and are as large as they can be in 8 bits."""
    dictionary, networks = small_models(2.0, bins=513)
    signs = np.where(np.arange(ODD.width) % 3, 1, -1).astype(np.float32)
    refiner = networks.refiner
    read = {"in.weight": np.float32(0.01) * signs + 0 * refiner.parameters["in.weight"]}
    changed = replace(refiner, parameters={**refiner.parameters, **read})
    models = dictionary, networks._replace(refiner=changed)
    (_, found), (_, wanted) = both(8000, 1, models, sound(8000, 1))
    assert np.quantile(np.abs(found.gain - wanted.gain), 0.99) < 1e-3


@pytest.mark.parametrize(("rate", "channels"), [(8000, 1), (16000, 2), (48000, 1)])
def test_the_shipped_models_with_the_same_draws(rate, channels):
    weights = find_online(rate)
    audio = sound(rate, channels)
    (ours, found), (theirs, wanted) = both(
        rate, channels, (weights.dictionary, weights.online), audio
    )
    assert ours.acceptance == pytest.approx(theirs.acceptance, abs=2e-3)
    # A draw may tip where both differ by a rounding error, which changes one cell a little.
    assert np.mean(np.abs(found.gain - wanted.gain) > 1e-4) < 0.03
    clean = sound(rate, channels)[: len(found.speech), 0]
    scores = [si_sdr(clean, each.speech[:, 0]) for each in (found, wanted)]
    assert abs(scores[0] - scores[1]) < 0.01


def disturbed(rate, case):
    """Return sound with something that a recording should not have."""
    audio = sound(rate, 2)
    place = slice(rate // 2, rate // 2 + rate // 20)
    if case == "step":
        audio[: rate // 2] *= 1e-3
    elif case == "one channel":
        audio[:, 1] = 0
    elif case == "silence":
        audio[rate // 3 : rate // 2] = 0
    elif case == "beyond":
        audio[place] *= np.float32(1e20)
    elif case == "faint":
        audio *= np.float32(1e-25)
    elif case == "tone":
        audio[: rate // 2] *= 0.1
        audio[: rate // 2] += 0.5 * np.sin(np.arange(rate // 2) * 0.3)[:, None]
    return audio


@pytest.mark.parametrize("case", ["step", "one channel", "silence", "beyond", "faint", "tone"])
def test_hard_events_are_met_alike(case):
    audio = disturbed(8000, case)
    (ours, found), (theirs, wanted) = both(8000, 2, small_models(2.0), audio)
    assert ours.reset_reason == theirs.reset_reason
    assert (ours.reset_reason is not None) == (case == "beyond")
    assert np.isfinite(found.speech).all()
    if case != "beyond":
        np.testing.assert_allclose(found.speech, wanted.speech, atol=2e-5)
    # Beside samples of 1e12 nothing else can be told.
    assert np.quantile(np.abs(found.gain - wanted.gain), 0.9 if case == "beyond" else 0.99) < 1e-4


def newest_of(made, audio):
    return audio[-8 * made.hop :, 0].tobytes()


def floats_of(made, audio):
    """Return the state of an engine, and where its floats are, given the sound so far."""
    state = made.__getstate__()[1]
    newest = newest_of(made, audio)  # which is the first of them
    waiting = 2 * -(-4 * made.hop * audio.shape[1] // ALIGNMENT) * ALIGNMENT
    return state, range(state.index(newest), len(state) - waiting, ALIGNMENT)


@pytest.mark.parametrize("every", [23, pytest.param(1, marks=pytest.mark.slow)])
def test_a_number_that_is_not_finite_empties_the_state(every):
    """Wherever it is: the engine goes on as a new one does, and says why."""
    rate, channels = 11025, 2
    audio = sound(rate, channels)
    made = Engine(rate, channels, *small_models(1.2), **OPTIONS)
    hop = made.hop
    made.process(audio[: 20 * hop])
    state, places = floats_of(made, audio[: 20 * hop])
    rest = audio[20 * hop : 32 * hop]
    wanted = Engine(rate, channels, *small_models(1.2), **OPTIONS).process(rest)
    assert made.reset_reason is None and len(places) > 1000
    for k, place in enumerate(places[::every]):
        broken = bytearray(state)
        broken[place : place + 4] = np.float32([np.nan, np.inf, -np.inf][k % 3]).tobytes()
        engine._LIBRARY.alphamf_load(made._engine, bytes(broken))
        found = made.process(rest[: hop if k % 20 else None])
        assert made.reset_reason == engine.REASONS[2], place
        hops = len(found.activity)
        np.testing.assert_array_equal(found.gain, wanted.gain[..., :hops])
        np.testing.assert_array_equal(found.activity, wanted.activity[:hops])
        silence, speech = np.split(found.speech, [4 * hop])
        assert len(found.speech) == hops * hop and not silence.any()
        np.testing.assert_array_equal(speech, wanted.speech[: len(speech)])


@pytest.mark.skipif(sys.platform != "linux", reason="asks glibc for the size of a block")
def test_a_number_that_becomes_infinite_is_found_within_32_hops():
    audio = sound(11025, 1, seconds=0.5)
    for far in (0.1, 0.3, 0.7, 0.99):
        made = Engine(11025, 1, *small_models(1.2), **OPTIONS)
        made.process(audio[: 20 * made.hop])
        places = floats_of(made, audio[: 20 * made.hop])[1]
        block = ctypes.c_void_p.from_address(made._engine).value  # the first of the engine
        size = ctypes.CDLL(None).malloc_usable_size(ctypes.c_void_p(block))
        first = ctypes.string_at(block, size).index(newest_of(made, audio[: 20 * made.hop]))
        place = block + first + places[int(far * len(places))] - places[0]
        ctypes.c_float.from_address(place).value = np.inf
        made.process(audio[20 * made.hop :][: 33 * made.hop])
        assert made.reset_reason == engine.REASONS[2], far


@pytest.mark.parametrize("least", [0.3, 1.0])
def test_the_least_gain_is_a_limit(least):
    audio = sound(8000, 1)
    (_, found), (_, wanted) = both(8000, 1, small_models(2.0), audio, least=least)
    assert found.gain.min() == np.float32(least)
    np.testing.assert_allclose(found.speech, wanted.speech, atol=1e-5)


@pytest.mark.parametrize("rate", [16000, 16200, 18000, 24000, 48000, 192000])
def test_only_gains_above_the_dictionarys_band_change(rate):
    """From 7.6 kHz on they become those of the bands, where a band lies wholly below the top."""
    dictionary = find_online(48000).dictionary
    rng = np.random.default_rng(0)
    found = find_online(48000).causal
    high_band = CausalHighBand(untrained(rng, COUNT, ODD), 16000, found.frame)
    audio = sound(rate, 1)
    (_, one), (_, other) = (
        both(rate, 1, (dictionary, CausalNetworks(high_band=each)), audio)[0]
        for each in (high_band, None)
    )
    places = np.arange(one.gain.shape[1]) * (rate / 2 / (one.gain.shape[1] - 1))
    same = (one.gain == other.gain).all(axis=(0, 2))
    assert same[places < 7600].all()
    if rate == 16000:
        assert same.all()
    else:
        assert not same[places > 8000].any()
        # Above the centre of the highest band all have its gain.
        top = one.gain[:, places > max(0.5 * rate - 100, 20000)]
        np.testing.assert_array_equal(top, np.broadcast_to(top[:, :1], top.shape))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
@pytest.mark.parametrize("rate", [8000, 44100])
def test_a_copy_goes_on_to_the_same_bits(copied, rate):
    weights = find_online(rate)
    made = Engine(rate, 2, weights.dictionary, weights.online, **OPTIONS)
    audio = sound(rate, 2)
    made.process(audio[: 70 * made.hop])
    other = copied(made)
    rest = audio[70 * made.hop : 150 * made.hop]
    first, second = made.process(rest), other.process(rest)
    for one, two in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, two)


COPY = """
import hashlib, sys
import numpy as np
from alphamf.denoising.weights import find_online
from alphamf.native.engine import Engine

audio = np.load(sys.argv[1])
weights = find_online(44100)
made = Engine(44100, 2, weights.dictionary, weights.online, linked=True, least=0.0, seed=0)
found = made.process(audio[: len(audio) // made.hop * made.hop])
print(hashlib.sha256(b"".join(each.tobytes() for each in found)).hexdigest())
"""


@pytest.mark.slow
def test_copies_for_other_processors_give_the_same_bits(tmp_path):
    """Those with fused multiply-adds, and those without."""
    np.save(tmp_path / "audio.npy", sound(44100, 2))
    found = {
        name: subprocess.check_output(
            [sys.executable, "-c", COPY, tmp_path / "audio.npy"],
            env={**os.environ, "ALPHAMF_LOOPS": name},
        )
        for name in ("default", "unfused", "v3", "v4")
    }
    assert found["default"] == found["unfused"]
    assert found["v3"] == found["v4"]
    if compiled.variant() not in ("default", "unfused"):
        assert found["v4"] != found["default"]


def test_seeds_differ_and_repeat():
    weights = find_online(8000)
    audio = sound(8000, 1)[: 64 * 100]
    outs = [
        Engine(8000, 1, weights.dictionary, **{**OPTIONS, "seed": seed}).process(audio).gain
        for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(outs[0], outs[1])
    assert (outs[0] != outs[2]).any()


def test_engines_of_the_same_models_share_their_weights():
    weights = find_online(8000)
    one, two = (Engine(8000, 1, weights.dictionary, weights.online, **OPTIONS) for _ in range(2))
    assert one._weights is two._weights


def test_more_channels_than_there_is_memory_for():
    with pytest.raises(AlphaMFError, match="not enough memory"):
        Engine(8000, 1 << 17, find_online(8000).dictionary, **OPTIONS)
