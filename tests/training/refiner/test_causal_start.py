"""A causal refiner that starts from one for whole recordings."""

import numpy as np
import pytest

from alphamf.learnt import network

torch = pytest.importorskip("torch", reason="training needs PyTorch: pip install 'alphamf[learn]'")

from alphamf.training.refiner import causal_start, torch_layers  # noqa: E402

SIZES = network.Sizes(width=12, hidden=24, blocks=3, maps=3, local=4, deep=2)
BINS = 97


def whole(sizes=SIZES):
    rng = np.random.default_rng(0)
    start = network.start(rng, BINS, sizes)
    return {k: v + 0.1 * rng.standard_normal(v.shape, np.float32) for k, v in start.items()}


def made(known, sizes=SIZES, bands=0):
    return causal_start.start(np.random.default_rng(1), known, BINS, sizes, bands)


def outputs(values, features, causal):
    tensors = {name: torch.from_numpy(value) for name, value in values.items()}
    return torch_layers.outputs(tensors, torch.from_numpy(features), causal).numpy()


def test_it_answers_a_steady_sound_as_the_other_one_does():
    known = whole()
    # The last block of the other one has no place, and the first of the new one is not silent yet.
    known[f"block{SIZES.blocks - 1}.down"][:] = 0
    known[f"block{SIZES.blocks - 1}.down_bias"][:] = 0
    values = made(known)
    assert {k: v.shape for k, v in values.items()} == network.shapes(BINS, SIZES)
    assert {v.dtype for v in values.values()} == {np.dtype(np.float32)}
    values["block0.down"][:] = 0
    frame = np.random.default_rng(2).standard_normal((1, 1, BINS, network.FEATURES), np.float32)
    steady = np.repeat(frame, 120, axis=1)
    ours, theirs = outputs(values, steady, True), outputs(known, steady, False)
    np.testing.assert_allclose(ours[0, -1], theirs[0, 60], atol=1e-4)


def test_taps_lie_as_far_back_in_time_as_before():
    known = whole()
    values = made(known)
    for k in range(1, SIZES.blocks):
        np.testing.assert_array_equal(
            values[f"block{k}.taps"][2:4], known[f"block{k - 1}.taps"][:2]
        )
        assert (values[f"block{k}.taps"][:2] == 0).all()
    np.testing.assert_array_equal(values["local.weight"][0], known["local.weight"][0])


def test_it_may_be_tied_in_bands():
    assert {k: v.shape for k, v in made(whole(), bands=80).items()} == network.shapes(80, SIZES)


@pytest.mark.parametrize("change", [{"width": 16}, {"blocks": 5}, {"maps": 4}, {"deep": 3}])
def test_another_size_is_refused(change):
    with pytest.raises((KeyError, ValueError)):
        made(whole(), SIZES._replace(**change))
