"""Rooms of training mixtures, and the clips of a dereverberator."""

import sys

import numpy as np
import pytest

from alphamf.errors import AlphaMFError
from alphamf.learnt import layers, network, second_stage
from alphamf.learnt.network import Sizes
from alphamf.learnt.second_stage import WITH_TAPS, Dereverberator
from alphamf.training.refiner import mixtures, run
from alphamf.training.refiner.recordings import SplitRecordings
from tests.support import tones
from tests.support.tones import RATE, SOUNDS, VOICES

SIZES = Sizes(16, 32, 1, 3, 12, 0, *WITH_TAPS)


def image(seed, **ranges):
    pytest.importorskip("pyroomacoustics", reason="the image method needs pyroomacoustics")
    return mixtures.image_room(np.random.default_rng(seed), RATE, **ranges)


def test_a_seed_gives_one_room():
    one, same, other = image(1), image(1), image(2)
    np.testing.assert_array_equal(one.voice, same.voice)
    np.testing.assert_array_equal(one.noise, same.noise)
    assert len(one.voice) != len(other.voice) or (one.voice != other.voice).any()


@pytest.mark.parametrize("seed", range(4))
def test_a_response_begins_with_the_direct_sound(seed):
    room = image(seed, distance=(0.5, 1.0))
    assert np.abs(room.voice).argmax() <= RATE // 1000
    assert np.abs(room.voice).max() == 1
    early = round(mixtures.EARLY_SECONDS * RATE)
    np.testing.assert_array_equal(room.early[:early], room.voice[:early])
    assert not room.early[early + RATE // 1000 :].any()


def test_without_the_package_a_sentence_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyroomacoustics", None)
    with pytest.raises(AlphaMFError, match=r"install it with .* install .*pyroomacoustics"):
        mixtures.image_room(np.random.default_rng(0), RATE)


def test_a_recorded_room_is_cut_at_its_direct_sound(monkeypatch):
    monkeypatch.setattr(mixtures, "RECORDED", 1.0)
    response = np.zeros(2000)
    response[100], response[300], response[900] = -0.5, 0.25, 0.125
    room = mixtures.draw_room(np.random.default_rng(0), RATE, [response])
    before = RATE // 1000
    assert room.voice[before] == -1 and room.voice[before + 800] == 0.25
    assert room.early[before + 200] == 0.5 and not room.early[before + 800 :].any()
    impulse = np.zeros(1500)
    impulse[0] = 1
    early, whole = room.heard(impulse)
    np.testing.assert_allclose(whole, room.voice[:1500], atol=1e-12)
    np.testing.assert_allclose(early, room.early[:1500], atol=1e-12)
    noise = np.random.default_rng(1).standard_normal(1500)
    assert np.mean(room.heard_noise(noise) ** 2) == pytest.approx(np.mean(noise**2))


def test_the_target_of_an_echo_is_its_early_part(tmp_path, monkeypatch):
    monkeypatch.setattr(mixtures, "RECORDED", 1.0)
    kind = {"kind": {"name": "dereverberator", "of": "x"}}
    calm = {"echo": 1.0, "nearly_clean": 1.0, "snr": [60, 60], "codec": 0.0, "clipped": 0.0}
    monkeypatch.setattr(mixtures, "NEARLY_CLEAN", (60.0, 60.0))
    monkeypatch.setattr(mixtures, "FLOOR", 0.0)
    long = np.zeros(2400)
    long[0], long[2000] = 1.0, 0.7
    recipe = tones.changed(tmp_path, network=kind, mixtures=calm).mixtures
    made = SplitRecordings(VOICES, SOUNDS, [long])
    for seed in range(3):
        rng = np.random.default_rng(seed)
        clean, noisy = mixtures.mixture(rng, 4800, RATE, made, recipe)
        late = noisy - clean
        assert np.mean(late**2) > 0.01 * np.mean(clean**2)
        assert np.mean(late[400:1800] ** 2) < 0.05 * np.mean(late**2)  # nothing is late yet


def test_a_network_for_a_lower_rate_has_the_parameters_of_its_frequencies():
    """What it reads above 4 kHz is silent; below, both have the same outputs but at the edge."""
    frame, half = second_stage.frame(16000), second_stage.frame(8000)
    whole = Dereverberator(network.start(np.random.default_rng(0), frame.bins, SIZES), 16000, frame)
    lower = run.keep_lowest_bins(whole, Dereverberator({}, 8000, half))
    assert (lower.rate, lower.frame) == (8000, half)
    assert lower.shapes == network.shapes(half.bins, SIZES)
    given = np.zeros((5, frame.bins, WITH_TAPS[0]), np.float32)
    given[:, : half.bins] = np.random.default_rng(1).standard_normal((5, half.bins, WITH_TAPS[0]))
    found, expected = (
        layers.outputs(each.parameters, given[:, : each.frame.bins], np) for each in (lower, whole)
    )
    np.testing.assert_allclose(found[:, :-2], expected[:, : half.bins - 2], atol=1e-4)
    other = Dereverberator({}, 8000, second_stage.frame(16000))
    assert run.keep_lowest_bins(whole, other) is whole
