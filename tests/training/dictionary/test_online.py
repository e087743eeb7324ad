"""H of an excerpt, and W from streamed speech, against EM of all speech."""

from __future__ import annotations

import numpy as np
import pytest

from alphamf.errors import AlphaMFError
from alphamf.factorization.alpha_mf import AlphaMF, Source
from alphamf.factorization.stable import symmetric_stable
from alphamf.inference.chain import run
from alphamf.inference.protocols import Parts
from alphamf.inference.random import generator
from alphamf.inference.samplers.sgrld import EM
from alphamf.training.dictionary.activations import activate
from alphamf.training.dictionary.online import StreamEM

ROWS, COLUMNS, RANK = 30, 80, 3


def planted(alpha, seed=0):
    """Draw W, and |X|^2 of the alpha-stable law with the dispersion W H."""
    rng = np.random.default_rng(seed)
    basis = rng.gamma(0.3, 1, (ROWS, RANK)) + 1e-3
    basis /= basis.sum(0)
    gains = rng.gamma(0.3, 1, (RANK, COLUMNS)) + 1e-2
    cells = symmetric_stable(generator(seed, 0), alpha, (ROWS, COLUMNS), np.float64)
    power = np.abs(cells) ** 2 * (basis @ gains) ** (2 / alpha)
    return basis.astype(np.float32), (power / power.mean()).astype(np.float32)


@pytest.mark.parametrize("alpha", [0.8, 1.0, 1.5, 2.0])
def test_activations_are_those_of_em(alpha):
    """The same start, the same draws of Phi: the kernel EM with W fixed takes the same way."""
    basis, power = planted(alpha)
    steps = list(activate(power, basis, alpha, 11, generator(1, 1)))
    target, rng = AlphaMF(power, [Source(alpha, RANK, basis)]), generator(1, 1)
    state = EM(1.5).init(rng, target.start(rng))
    for step in steps:
        np.testing.assert_allclose(step.gains.reshape(-1), state.theta, rtol=2e-3)
        np.testing.assert_allclose(step.dispersion, basis @ step.gains, rtol=1e-5)
        state = EM(1.5).step(rng, state, target)


def test_what_is_hidden_is_not_known():
    """What a cell of weight zero holds changes nothing of H."""
    basis, power = planted(1.2)
    hidden = np.random.default_rng(2).random(power.shape) < 0.3
    other = np.where(hidden, power[::-1, ::-1] * 100, power)
    weights = 1 - hidden.astype(np.float32)

    def last(power, weights):
        return list(activate(power, basis, 1.2, 12, generator(0, 5), weights))[-1].gains

    np.testing.assert_array_equal(last(power, weights), last(other, weights))
    assert np.abs(last(power, None) / last(other, None) - 1).max() > 0.5


class OfBasis:
    """The W of a target with W and H, at an H and a Phi that rest."""

    positive = True
    latents: dict = {}  # noqa: RUF012

    def __init__(self, target, theta, scale):
        self.potential = target.draw(generator(0, 3), theta)
        self.theta, self.scale, self.alpha = theta, scale, target.sources[0].alpha
        self.block = target.model.layout[0][0]

    def draw(self, rng, theta):
        return self

    def parts(self, theta):
        plus, minus, shape, _ = self.potential.parts(self.theta)
        exponent = np.full(1, self.alpha / (self.alpha + 2))
        return Parts(
            plus[self.block] / self.scale, minus[self.block] / self.scale, shape[:1], exponent
        )


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.2, 2.0])
def test_without_a_past_it_is_em(alpha):
    """With gamma = 1 and all speech in one batch, W moves as under the kernel EM.

    EM's W goes half of the way, since H goes the other half: its relaxation is twice that of the
    stream's. The scale of a batch's statistics does not matter, and columns sum to one.
    """
    _, power = planted(alpha)
    target = AlphaMF(power, [Source(alpha, RANK)])
    theta = target.start(generator(0, 2))
    of_basis = OfBasis(target, theta, scale=COLUMNS)

    class Resting:
        draw = staticmethod(lambda rng, theta: of_basis.potential)

    moved = EM(1.5).step(None, EM(1.5).init(None, theta), Resting)
    expected, _ = target.unpack(moved.theta)[0]
    sampler = StreamEM(RANK, rate=1.0, relaxation=0.75)
    state = sampler.step(None, sampler.init(None, theta[of_basis.block]), of_basis)
    np.testing.assert_allclose(
        state.theta.reshape(-1, RANK), expected / expected.sum(0), rtol=1e-4, atol=1e-9
    )


@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_the_scale_of_a_column_is_of_no_account(alpha):
    """A past gathered under columns of another scale stands for the same W."""
    rng = np.random.default_rng(0)
    p = 2 / alpha
    plus, minus, plus2, minus2, old = rng.random((5, ROWS * RANK)) + 0.1
    factor = np.tile([0.1, 1.0, 7.0], ROWS)

    class Said:
        def __init__(self, plus, minus):
            self.plus, self.minus = plus, minus

        def draw(self, rng, theta):
            return self

        def parts(self, theta):
            one = np.ones(1)
            return Parts(self.plus, self.minus, one, one / (1 + p))

    def after(scale):
        # H carries the inverse scale, and with it both slopes by W.
        sampler = StreamEM(RANK, rate=lambda step: 0.3 if step else 1.0)
        state = sampler.step(
            None, sampler.init(None, old * scale), Said(plus / scale, minus / scale)
        )
        return sampler.step(None, state, Said(plus2, minus2)).theta

    np.testing.assert_allclose(after(factor), after(1.0), rtol=1e-10)


class Batches:
    """The columns of a power spectrum, in two alternating batches."""

    positive = True
    latents: dict = {}  # noqa: RUF012

    def __init__(self, power, alpha, batches):
        self.parts_of_power = np.array_split(power, batches, axis=1)
        self.alpha, self.turn = alpha, -1

    def draw(self, rng, theta):
        self.turn += 1
        self.power = self.parts_of_power[self.turn % len(self.parts_of_power)]
        *_, self.last = activate(self.power, theta.reshape(ROWS, -1), self.alpha, 60, rng)
        return self

    def parts(self, theta):
        columns, exponent = self.power.shape[1], self.alpha / (self.alpha + 2)
        return Parts(
            (self.last.plus @ self.last.gains.T).reshape(-1) / columns,
            (self.last.minus @ self.last.gains.T).reshape(-1) / columns,
            np.ones(1),
            np.full(1, exponent),
        )


@pytest.mark.slow
@pytest.mark.parametrize("batches", [1, 4])
def test_batches_lead_where_all_speech_leads(batches):
    """At alpha = 2, where U is known in full, both find a W of nearly the same U."""
    _, power = planted(2.0)
    batch = Batches(power, 2.0, batches)
    start = np.random.default_rng(1).random(ROWS * RANK).astype(np.float32)
    *_, state = run(batch, StreamEM(RANK), steps=300, seed=0, start=start)

    def value(learnt):
        target = AlphaMF(power, [Source(2.0, RANK, learnt)])
        *_, state = run(target, EM(1.5), steps=300, seed=0)
        return float(target.draw(generator(0), state.theta).value(state.theta)) / power.size

    whole = AlphaMF(power, [Source(2.0, RANK)])
    *_, em = run(whole, EM(1.5), steps=400, seed=0)
    best = value(whole.unpack(em.theta)[0][0])
    assert abs(value(state.theta.reshape(ROWS, RANK)) - best) < 0.02
    # A W that has not moved is far off.
    assert value(start.reshape(ROWS, RANK)) - best > 0.2


@pytest.mark.parametrize("relaxation", [0.0, 2.0])
def test_out_of_range(relaxation):
    with pytest.raises(AlphaMFError, match=f"relaxation must be between 0 and 2, not {relaxation}"):
        StreamEM(RANK, relaxation=relaxation)
