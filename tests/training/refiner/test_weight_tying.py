"""Weights of neighbouring bins that are tied in bands."""

import numpy as np
import pytest

from alphamf.learnt import layers, network
from alphamf.training.refiner.config import NARROW

torch = pytest.importorskip("torch", reason="training needs PyTorch: pip install 'alphamf[learn]'")

from alphamf.training.refiner import weight_tying  # noqa: E402  it needs PyTorch

SIZES = network.Sizes(6, 12, 1, 3, 4, 0)


@pytest.mark.parametrize(("bins", "bands"), [(513, 128), (257, 106), (80, NARROW + 2)])
def test_every_bin_is_shared_out_and_low_ones_belong_to_themselves(bins, bands):
    shares = weight_tying.band_shares(bins, bands)
    assert shares.shape == (bins, bands) and (shares >= 0).all()
    np.testing.assert_allclose(shares.sum(1), 1, atol=1e-6)
    np.testing.assert_array_equal(shares[:NARROW, :NARROW], np.eye(NARROW))
    assert shares[-1, -1] == 1 and (shares.sum(0) > 0).all()
    # Above, no bin belongs to more than two bands, which lie side by side.
    assert ((shares > 0).sum(1) <= 2).all()
    assert (np.diff(shares.argmax(1)) >= 0).all()
    widths = shares.sum(0)[NARROW + 1 : -1]
    assert bands < 70 or widths[-1] > 3 * widths[0]


def test_the_whole_network_reads_means_of_bands_and_writes_between_them():
    bins, bands, frames = 257, 106, 7
    rng = np.random.default_rng(1)
    small = {
        name: torch.from_numpy(np.array(value))
        for name, value in network.start(rng, bands, SIZES).items()
    }
    spread = weight_tying.band_shares(bins, bands)
    whole = {
        k: v.numpy() for k, v in weight_tying.expand_tied(small, torch.from_numpy(spread)).items()
    }
    assert {k: v.shape for k, v in whole.items()} == network.shapes(bins, SIZES)
    features = rng.standard_normal((2, frames, bins, network.FEATURES)).astype(np.float32)
    means = np.einsum("...bk,bn->...nk", features, spread / spread.sum(0))
    few = {name: value.numpy() for name, value in small.items()}
    read = layers.read_frames(few, means)
    np.testing.assert_allclose(layers.read_frames(whole, features), read, atol=1e-4)
    maps = np.einsum("...nm,bn->...bm", layers.feature_maps(few, read, bands), spread)
    np.testing.assert_allclose(layers.feature_maps(whole, read, bins), maps, atol=1e-4)


def test_a_network_that_was_tied_is_tied_again_as_it_was():
    small = network.start(np.random.default_rng(3), 106, SIZES)
    tensors = {name: torch.from_numpy(np.array(value)) for name, value in small.items()}
    whole = weight_tying.expand_tied(tensors, torch.from_numpy(weight_tying.band_shares(257, 106)))
    again = weight_tying.fit_tied({k: v.numpy() for k, v in whole.items()}, 257, 106)
    assert again.keys() == small.keys()
    for name, value in small.items():
        np.testing.assert_allclose(again[name], value, atol=1e-5)
