"""Matrix factorisation over blocks, in one process: the blocks, the samplers, checkpoints."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphamf.errors import AlphaMFError
from alphamf.inference.blocks import (
    FactorModel,
    ListedRatings,
    SyntheticRatings,
    Walk,
    launched_ranks,
)
from alphamf.inference.random import generator, noise
from alphamf.inference.samplers.hamcmc import HAMCMC
from alphamf.inference.samplers.langevin import PSGLD, SGLD
from alphamf.inference.schedule import Polynomial
from alphamf.inference.targets.bpmf import BPMF
from tests.support import distributed_walks as walks
from tests.support.distributed_walks import BLOCKS, EVERY, SAMPLERS, SHAPE, STEPS


def lists(shape=(30, 20), count=300, seed=0):
    rng = np.random.default_rng(seed)
    pairs = rng.permutation(shape[0] * shape[1])[:count]
    values = rng.standard_normal(count).astype(np.float32) + 3
    return pairs // shape[1], pairs % shape[1], values


# Blocks -------------------------------------------------------------------------------------------


@given(
    rows=st.integers(4, 12), columns=st.integers(4, 12), blocks=st.integers(1, 4),
    share=st.floats(0.1, 1),
)  # fmt: skip
@settings(max_examples=30, deadline=None)
def test_blocks_hold_every_rating_once(rows, columns, blocks, share):
    train = lists((rows, columns), max(1, int(share * rows * columns)))
    test = tuple(x[:3] for x in train)
    source = ListedRatings(train, test, shape=(rows, columns), blocks=blocks)
    ends = [np.arange(blocks + 1) * n // blocks for n in (rows, columns)]
    for which, wanted in enumerate((train, test)):
        found = set()
        for b in range(blocks):
            for j in range(blocks):
                entries = source.block(b, j)[which]
                i, k = entries.rows + ends[0][b], entries.columns + ends[1][j]
                assert (i < ends[0][b + 1]).all() and (k < ends[1][j + 1]).all()
                assert (np.diff(i * columns + k) > 0).all()
                found |= set(zip(i.tolist(), k.tolist(), entries.values.tolist(), strict=True))
        places = source.order[0][wanted[0]].tolist(), source.order[1][wanted[1]].tolist()
        assert found == set(zip(*places, wanted[2].tolist(), strict=True))


def test_made_up_blocks_need_no_others_and_can_be_predicted():
    # Far larger than memory: only one block of 100 x 100 is ever made.
    source = SyntheticRatings((480_189, 17_770), 100_480_507, rank=4, blocks=100, test=0.2)
    train, test = source.block(7, 3)
    again, _ = source.block(7, 3)
    assert all((x == y).all() for x, y in zip(train, again, strict=True))
    assert 9_500 < len(train.values) + len(test.values) <= 10_049
    assert 0.18 < len(test.values) / len(train.values) < 0.32
    assert train.rows.max() < 4802 and train.columns.max() < 178
    counts = np.bincount(train.columns)
    assert counts[:20].mean() > 3 * counts[-20:].mean()
    # Half of the variance 1 + 1/4 of two ratings by one row and column is not noise.
    assert np.var(train.values) == pytest.approx(1.25, rel=0.15)


def test_lists_outside_the_shape_are_refused():
    rows, columns, values = lists()
    right = (rows, columns, values)
    for wrong, named in (
        ((rows + 1, columns, values), "rows must be from 0 to 29, not 1 to 30"),
        ((rows, columns - 1, values), "columns must be from 0 to 19, not -1 to 18"),
    ):
        for train, test in ((wrong, right), (right, wrong)):
            with pytest.raises(AlphaMFError, match=named):
                ListedRatings(train, test, shape=(30, 20), blocks=2)


def walk_and_target(sampler, seed, blocks, rank, **settings):
    """Return a walk, and the target of its posterior, whose rows stand in the walk's order."""
    ratings = rows, columns, values = lists()
    source = ListedRatings(ratings, ratings, shape=(30, 20), blocks=blocks)
    walk = Walk(source, FactorModel(rank, **settings), sampler, seed=seed)
    places = source.order[0][rows], source.order[1][columns]
    return walk, BPMF(*places, values, shape=(30, 20), rank=rank, **settings)


def test_parts_are_an_unbiased_estimate_of_the_gradient():
    settings = {"offset": 3.0, "variance_w": 0.5, "variance_h": 2.0, "variance_x": 0.7}
    walk, target = walk_and_target(SGLD(1e-3), 0, blocks=3, rank=4, **settings)
    (chain,) = walk.chains
    mean = 0.0
    for part in range(3):
        chain.move(part)
        keys = [key for key, _ in chain.halves()]
        found = dict(zip(keys, walk.gradients(chain, 0), strict=True))
        flat = np.concatenate([found[key].ravel() for key in range(6)])
        mean += walk.parts[part] / walk.parts.sum() * flat.astype(np.float64)
    assert walk.parts.sum() == 300
    theta = np.concatenate([x.ravel() for x in walk.factors()[0]])
    np.testing.assert_allclose(mean, target.draw(None, theta).grad(theta), rtol=2e-4, atol=2e-4)


# Samplers -----------------------------------------------------------------------------------------


class SameNoise:
    """The noise of a walk with one block at one step, for one of `alphamf.inference.samplers`."""

    def __init__(self, step, shape, rank):
        self.step, self.counts, self.rank = step, shape, rank
        self.drawn = 0

    def standard_normal(self, shape, dtype):
        if shape == (sum(self.counts) * self.rank,):
            keys = [
                noise(
                    generator(1, 1 + self.step, key, self.drawn),
                    np.empty((count, self.rank), np.float32),
                )
                for key, count in enumerate(self.counts)
            ]
            self.drawn += 1
            return np.concatenate([x.ravel() for x in keys])
        return generator(1, 1 + self.step, 3, 0).standard_normal(shape[-1]).astype(dtype)


@pytest.mark.parametrize(
    "sampler",
    [
        *SAMPLERS.values(),
        HAMCMC(Polynomial(1e-4), memory=3, trust=20.0),  # whose steps are held
        PSGLD(1e-2, damping=5.0, lagged=True),
    ],
    ids=repr,
)
def test_one_block_is_the_sampler_of_the_library(sampler):
    walk, target = walk_and_target(sampler, 1, blocks=1, rank=3, offset=3.0, variance_x=0.5)
    start = np.concatenate([x.ravel() for x in walk.factors()[0]])
    state = sampler.init(None, start)
    for step, _ in enumerate(walk.run(40)):
        state = sampler.step(SameNoise(step, (30, 20), 3), state, target)
    found = [np.concatenate([x.ravel() for x in pair]) for pair in walk.factors()]
    assert np.abs(found[0] - start).max() > 0.05
    np.testing.assert_allclose(found[0], state.theta, atol=2e-5)
    if len(found) > 1:
        np.testing.assert_allclose(found[1], state.coarse, atol=2e-5)


def test_curve_is_the_error_of_mean_predictions():
    walk = walks.small("DSGLD", burn_in=30)
    source = walks.made()
    sums, counts, points = {}, {}, []
    ends = [np.arange(BLOCKS + 1) * n // BLOCKS for n in SHAPE]
    (w, h), steps = walk.factors()[0], 0
    for done in walk.run(80):
        part = walk.chains[0].part
        for b in range(BLOCKS):
            j = (b + part) % BLOCKS
            test = source.block(b, j)[1]
            left, right = w[test.rows + ends[0][b]], h[test.columns + ends[1][j]]
            predicted = (left * right).sum(1, dtype=np.float64) + 3.6
            # Only the latest during burn-in.
            kept = counts.get((b, j), 0) if steps > 30 else 0
            sums[b, j] = predicted + (sums[b, j] if kept else 0)
            counts[b, j] = kept + (steps > 30)
        (w, h), steps = walk.factors()[0], done
        if done % EVERY == 0 and len(counts) == BLOCKS**2:
            errors = [
                sums[place] / max(count, 1) - source.block(*place)[1].values
                for place, count in counts.items()
            ]
            points.append([done, np.sqrt(np.mean(np.concatenate(errors) ** 2))])
    assert len(points) >= 6
    np.testing.assert_allclose(np.array(walk.curve)[:, ::2], points, rtol=1e-6)
    assert walk.seconds == walk.curve[-1][1] > 0


def test_pair_of_chains_predicts_by_extrapolation():
    walk = walks.small("DSGRRLD", burn_in=0)
    for _ in walk.run(STEPS):
        pass
    predictions, source = walk.predictions, walks.made()
    # The fine chain is met twice a step, and what it starts from is not counted.
    assert predictions.visits.sum(1).tolist() == [2 * STEPS - 2, STEPS - 1]
    errors = [
        2 * predictions.sums[0, b, j] / predictions.visits[0, (j - b) % BLOCKS]
        - predictions.sums[1, b, j] / predictions.visits[1, (j - b) % BLOCKS]
        + 3.6 - source.block(b, j)[1].values
        for b in range(BLOCKS) for j in range(BLOCKS)
    ]  # fmt: skip
    assert walk.curve[-1][2] == pytest.approx(np.sqrt(np.mean(np.concatenate(errors) ** 2)))


# Checkpoints and errors ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [x if x == "HAMCMC" else pytest.param(x, marks=pytest.mark.slow) for x in SAMPLERS]
)
def test_resumed_walk_is_the_unbroken_one(name, tmp_path):
    whole = walks.outcome(walks.small(name))
    for _ in walks.small(name).run(57, checkpoint=tmp_path, segment=10):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["50", "checkpoint.json"]
    rest = walks.outcome(walks.small(name), checkpoint=tmp_path, segment=10)
    assert len(rest["passed"]) == len(whole["passed"]) // 2
    for log in ("passed", "rows"):
        whole[log] = whole[log][-len(rest[log]) :]
    walks.same(whole, rest)


def test_checkpoint_that_is_no_use_is_one_sentence(tmp_path):
    for _ in walks.small("HAMCMC").run(10, checkpoint=tmp_path, segment=10):
        pass
    for other in (walks.small("DSGLD"), walks.small("HAMCMC", burn_in=21)):
        with pytest.raises(AlphaMFError, match=r"belongs to another run: its (sampler|burn-in)"):
            next(other.run(20, checkpoint=tmp_path))
    (tmp_path / "10" / "2.npz").write_bytes(b"PK")
    with pytest.raises(AlphaMFError, match=r"cannot be read \(ValueError\)"):
        next(walks.small("HAMCMC").run(20, checkpoint=tmp_path))
    (tmp_path / "checkpoint.json").write_text("{")
    with pytest.raises(AlphaMFError, match="cannot be read"):
        next(walks.small("HAMCMC").run(20, checkpoint=tmp_path))
    (tmp_path / "file").write_text("")
    with pytest.raises(AlphaMFError, match=r"file.10 cannot be created"):
        list(walks.small("HAMCMC").run(10, checkpoint=tmp_path / "file", segment=10))


def test_launcher_without_mpi4py_is_one_sentence(monkeypatch):
    assert launched_ranks() is None
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(AlphaMFError, match=r"pip install 'alphamf\[mpi\]'"):
        launched_ranks()
