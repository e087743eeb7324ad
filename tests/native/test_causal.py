"""The causal refiner: what it remembers, and that it starts from the chain's gain."""

import numpy as np

from alphamf.audio.stft import Frame
from alphamf.learnt import network
from alphamf.learnt.causal import EDGE, CausalRefiner
from tests.support.twin.networks import FrameNetwork

BINS = 33
FRAME = Frame(64, 8)
SIZES = network.Sizes(width=12, hidden=16, blocks=3, maps=2, local=4, deep=2)


def refiner(seed=0):
    rng = np.random.default_rng(seed)
    start = network.start(rng, BINS, SIZES)
    values = {k: v + 0.1 * rng.standard_normal(v.shape, np.float32) for k, v in start.items()}
    return CausalRefiner(values, 8000, FRAME)


def frames(count, channels=1, seed=1):
    """Return what a chain might find, a dictionary a frame."""
    rng = np.random.default_rng(seed)
    names = ("power", "speech", "noise")
    found = []
    for _ in range(count):
        frame = {name: rng.gamma(1, 1, (channels, BINS)).astype(np.float32) for name in names}
        gain = rng.uniform(0.05, 0.95, (channels, BINS)).astype(np.float32)
        found.append(frame | {"gain": gain, "gain_std": 0.3 * gain})
    return found


def refined(network, given):
    return np.stack([network.refine(**frame) for frame in given])


def test_a_network_comes_back_from_its_file(tmp_path):
    saved = refiner()
    saved.save(tmp_path / "mine.npz")
    loaded = CausalRefiner.load(tmp_path / "mine.npz")
    assert (loaded.frame, loaded.rate, loaded.sizes) == (FRAME, 8000, SIZES)
    given = frames(5)
    for one, other in zip(
        refined(FrameNetwork(saved, 1), given),
        refined(FrameNetwork(loaded, 1), given),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, atol=5e-3)  # half precision


def test_where_a_recording_ends_below_its_band_changes_nothing():
    network, given = refiner(), frames(20)
    edge = int(EDGE[1] * (BINS - 1))
    cut = [{name: value.copy() for name, value in frame.items()} for frame in given]
    for frame in cut:
        for name in ("power", "speech", "noise"):
            frame[name][:, edge:] *= 1e-8
        frame["gain"][:, edge:], frame["gain_std"][:, edge:] = 0.99, 0.01
    whole, ended = (refined(FrameNetwork(network, 1), each) for each in (given, cut))
    np.testing.assert_array_equal(ended, whole)
    cut[0]["power"][:, edge - 1] *= 1e-8
    assert (refined(FrameNetwork(network, 1), cut) != whole).any()
