"""The second stage at low latency."""

import numpy as np
import pytest

from alphamf.denoising.weights import find_online
from alphamf.learnt import network, second_stage
from alphamf.learnt.causal import CausalSecondStage
from tests.support.twin.engine import ReferenceEngine
from tests.support.twin.gains import OnlineSecondStage
from tests.support.twin.networks import FrameNetwork

RATE = 8000
SIZES = network.Sizes(width=8, hidden=12, blocks=2, maps=2, local=4, deep=1)
NO_LIMIT = np.float32(0)


def untrained():
    """Return a network that changes much."""
    rng = np.random.default_rng(0)
    frame = second_stage.frame(RATE)
    values = network.start(rng, frame.bins, SIZES)
    values["map.bias"] += rng.standard_normal(len(values["map.bias"])).astype(np.float32)
    return CausalSecondStage(values, RATE, frame)


def hops(count, hop, channels, seed=0):
    """Return pairs of hops of noise, and some speech in it, shape (count, 2, channels, 2 * hop)."""
    noise = np.random.default_rng(seed).standard_normal((channels, (count + 1) * hop), np.float32)
    pairs = [noise[:, k * hop : (k + 2) * hop] for k in range(count)]
    return [(pair, np.float32(0.4) * pair) for pair in pairs]


def corrected(stage, pairs, level=1.0, together=False, least=NO_LIMIT):
    """Return what comes out, shape (samples, channels)."""
    channels = len(pairs[0][0])
    levels = np.full((channels, 1), level, np.float32)
    flags = np.full(channels, together)
    return np.concatenate([stage.correct(*pair, levels, flags, least) for pair in pairs])


def test_a_correction_of_nothing_is_the_first_stage_without_a_delay(monkeypatch):
    """A twentieth of half of a frame is missing and made up for."""
    monkeypatch.setattr(FrameNetwork, "change", 0.0)
    weights = find_online(RATE)
    sound = np.random.default_rng(0).standard_normal((RATE, 1), np.float32) / 10
    sound *= 1 + np.sin(np.arange(RATE) / 300)[:, None].astype(np.float32)
    networks = weights.online._replace(second_stage=None)
    options = {"linked": False, "least": 0.0, "seed": 0}
    first, second = (
        ReferenceEngine(RATE, 1, weights.dictionary, each, **options).process(sound[:7936]).speech
        for each in (networks, networks._replace(second_stage=untrained()))
    )
    assert first.shape == second.shape
    assert np.std(second - first) < 10 ** (-35 / 20) * np.std(first)


def test_only_the_networks_band_is_corrected(monkeypatch):
    rate, hop = 16000, 128
    pairs = hops(60, hop, 1)
    found = corrected(OnlineSecondStage(untrained(), rate, hop, 1), pairs)
    monkeypatch.setattr(FrameNetwork, "change", 0.0)
    kept = corrected(OnlineSecondStage(untrained(), rate, hop, 1), pairs)
    change = np.abs(np.fft.rfft((found - kept)[:, 0] * np.hanning(len(found)))) ** 2
    places = np.fft.rfftfreq(len(found), 1 / rate)
    assert change[places > 4300].mean() < 1e-3 * change[places < 3700].mean()


def changed(monkeypatch, rate, gain, factor):
    """Return where and how much noise changes, times `gain` in the first stage, `factor` later."""

    def coefficients(stage, noisy, first):
        del stage, first
        return np.zeros(noisy.shape, np.float32), np.full(noisy.shape, factor, np.float32)

    monkeypatch.setattr(FrameNetwork, "coefficients", coefficients)
    frame, hop = second_stage.frame(rate), rate // 125
    values = network.start(np.random.default_rng(0), frame.bins, SIZES)
    stage = OnlineSecondStage(CausalSecondStage(values, rate, frame), rate, hop, 1)
    pairs = [(noisy, np.float32(gain) * noisy) for noisy, _ in hops(200, hop, 1)]
    found = corrected(stage, pairs)[hop:, 0]
    given = np.concatenate([first[0, :hop] for _, first in pairs])[hop:]
    return np.fft.rfftfreq(len(given), 1 / rate), np.abs(np.fft.rfft(found) / np.fft.rfft(given))


@pytest.mark.parametrize(("gain", "high"), [(1.0, 1.0), (0.6, 0.7)])
def test_what_the_first_stage_passes_above_4_khz_is_kept(monkeypatch, gain, high):
    """There, of a cut to a quarter, the part 1 - gain is made."""
    places, change = changed(monkeypatch, 16000, gain, 0.25)
    assert np.median(change[places < 3700]) == pytest.approx(0.25, abs=0.01)
    assert np.median(change[places > 4300]) == pytest.approx(high, abs=0.01)


@pytest.mark.parametrize(("rate", "wanted"), [(8000, 1.5), (16000, 1.4)])
def test_in_a_band_to_8_khz_nothing_becomes_much_louder(monkeypatch, rate, wanted):
    _, change = changed(monkeypatch, rate, 0.5, 1.5)
    assert np.median(change) == pytest.approx(wanted, abs=0.01)


def test_channels_together_have_one_correction():
    hop = 64
    pairs = [tuple(np.concatenate([each, each / 8]) for each in pair) for pair in hops(40, hop, 1)]
    one = corrected(OnlineSecondStage(untrained(), RATE, hop, 2), pairs, together=True)
    np.testing.assert_allclose(8 * one[:, 1], one[:, 0], atol=1e-5)
    other = corrected(OnlineSecondStage(untrained(), RATE, hop, 2), pairs)
    assert np.abs(8 * other[:, 1] - other[:, 0]).max() > 0.01
