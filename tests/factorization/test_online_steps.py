"""The steps of the online chain: compiled and in NumPy, and what they find."""

from __future__ import annotations

import numpy as np
import pytest

from alphamf.factorization import cells, compiled, online_steps
from alphamf.factorization.online_steps import FrameState, Moves

CONTEXT, CHANNELS, BINS, COLUMNS = 3, 2, 40, 7


def problem(alpha, loops, seed=0):
    rng = np.random.default_rng(seed)

    def draw(*shape):
        return rng.gamma(1.0, 1.0, shape).astype(np.float32) + np.float32(0.01)

    shape = CONTEXT, CHANNELS, BINS
    basis = draw(CONTEXT, COLUMNS, BINS)
    phi = cells.fill_stable(np.random.default_rng(seed), alpha, np.empty(shape, np.float32))
    return FrameState(
        power=draw(*shape),
        noise=draw(*shape),
        phi=phi if alpha < 2 else None,
        state=loops.states(np.random.default_rng(seed), [alpha, 2.0])[0],
        basis=basis,
        back=np.ascontiguousarray(basis.swapaxes(1, 2)),
        response=draw(CHANNELS, BINS),
        rate=draw(CHANNELS, COLUMNS),
        h=draw(CHANNELS, COLUMNS),
        total=np.zeros(shape[1:], np.float32),
        square=np.zeros(shape[1:], np.float32),
        v=np.empty(shape, np.float32),
        plus=np.empty(shape, np.float32),
        minus=np.empty(shape, np.float32),
    )


needs_loops = pytest.mark.skipif(not compiled.AVAILABLE, reason="the loops are not compiled")


def moved(monkeypatch, loops, alpha, moves, seed=0):
    """Move a problem by one of both loops; return it, and how many proposals were accepted."""
    monkeypatch.setattr(compiled, "AVAILABLE", loops is compiled)
    each = problem(alpha, loops)
    each = each._replace(state=loops.states(np.random.default_rng(seed), [alpha, 2.0])[0])
    return each, online_steps.move(each, moves)


@needs_loops
def test_compiled_steps_are_those_of_numpy(monkeypatch):
    moves = Moves(5, 3, 2.0, 0.1, 0.5)
    ours, theirs = (moved(monkeypatch, loops, 2.0, moves)[0] for loops in (compiled, cells))
    for name in ("h", "total", "square", "v", "plus", "minus"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=2e-4, atol=1e-6)


@needs_loops
def test_with_phi_they_agree_in_the_mean(monkeypatch):
    moves = Moves(40, 30, 1.0, 0.1, 0.5)
    means = []
    for loops in (compiled, cells):
        gains = []
        for seed in range(12):
            each, accepted = moved(monkeypatch, loops, 1.0, moves, 100 + seed)
            assert 0.1 < accepted / (40 * CHANNELS * BINS) < 1
            gains.append(each.total / 30)
        means.append(np.mean(gains, axis=0))
    assert np.abs(means[0] - means[1]).mean() < 0.03
    assert np.corrcoef(means[0].ravel(), means[1].ravel())[0, 1] > 0.97


@pytest.mark.parametrize("loops", [pytest.param(compiled, marks=needs_loops), cells])
def test_phi_of_older_frames_rests(monkeypatch, loops):
    before = problem(1.0, loops).phi
    each, _ = moved(monkeypatch, loops, 1.0, Moves(4, 2, 1.0, 0.1, 0.5))
    np.testing.assert_array_equal(each.phi[:-1], before[:-1])
    assert (each.phi[-1] != before[-1]).any()
