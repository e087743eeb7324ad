"""Gradients, blocks and gains of the alpha-stable factorisation against the model written out."""

import numpy as np
import pytest

from alphamf.errors import AlphaMFError
from alphamf.factorization import potential as tiled
from alphamf.factorization.alpha_mf import FLOOR, AlphaMFTarget, Source
from alphamf.factorization.priors import Flat, Gamma, GeneralizedGamma
from alphamf.inference.chain import run
from alphamf.inference.draws import draw_gradient, draw_parts
from alphamf.inference.random import generator
from alphamf.inference.samplers.positive import PositiveHMC
from alphamf.inference.samplers.sgrld import EM
from tests.support.differences import central

ROWS, COLUMNS = 6, 5
ALPHAS = [(0.8,), (1.0,), (2.0,), (1.2, 1.89), (1.0, 2.0), (1.0, 1.2, 1.89)]


class Chosen:
    """A generator that draws a given block."""

    def __init__(self, rng, block: int) -> None:
        self.rng, self.block = rng, block

    def integers(self, blocks: int) -> int:
        return self.block

    def __getattr__(self, name: str):
        return getattr(self.rng, name)


def make(alphas, *, fixed=False, chains=(), blocks=1, dtype=np.float64, seed=0):
    """Return a started target of every kind of prior, and a random theta for it.

    `fixed` holds W of the first source.
    """
    rng = np.random.default_rng(seed)
    sources = []
    for s, alpha in enumerate(alphas):
        rank = 2 + s % 2
        priors = [Gamma(0.3, 0.7), GeneralizedGamma(1.3, 0.6, -2 / alpha), Flat()]
        priors.append(GeneralizedGamma(0.8, 1.3, 1.7))
        basis = rng.uniform(0.2, 1.0, (ROWS, rank)).astype(dtype) if fixed and s == 0 else None
        sources.append(Source(alpha, rank, basis, priors[s % 4], priors[(s + 1) % 4]))
    power = rng.standard_exponential((ROWS, COLUMNS)).astype(dtype)
    target = AlphaMFTarget(power, sources, blocks=blocks)
    target.start(generator(seed, 1), chains)
    return target, rng.uniform(0.3, 1.3, (*chains, target.size)).astype(dtype)


def dense_value(target: AlphaMFTarget, theta) -> np.ndarray:
    """U of all rows, one chain at a time, from its definition."""
    chains = theta.shape[:-1]
    value = np.zeros(chains)
    for chain in np.ndindex(chains):
        sigma2 = np.full((ROWS, COLUMNS), FLOOR)
        entries = list(theta[chain])
        for s, source in enumerate(target.sources):
            w = source.basis
            if w is None:
                w = np.array([entries.pop(0) for _ in range(ROWS * source.rank)])
                value[chain] += source.prior_basis.potential(w).sum()
                w = w.reshape(ROWS, source.rank)
            h = np.array([entries.pop(0) for _ in range(source.rank * COLUMNS)])
            value[chain] += source.prior_gains.potential(h).sum()
            v = w @ h.reshape(source.rank, COLUMNS)
            phi = target.latents[f"phi{s}"][chain] if source.alpha < 2 else 2.0
            sigma2 += phi * v ** (2 / source.alpha)
        assert not entries
        value[chain] += (np.log(sigma2) + target.power / sigma2).sum()
    return value


@pytest.mark.parametrize("blocks", [pytest.param(1, marks=pytest.mark.slow), 4])
@pytest.mark.parametrize("chains", [(), (2, 3)])
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("alphas", ALPHAS, ids=str)
def test_gradient(alphas, fixed, chains, blocks):
    """Each block's against differences of its value; their mean against the model written out."""
    target, theta = make(alphas, fixed=fixed, chains=chains, blocks=blocks)
    values, gradients = [], []
    for block in range(blocks):
        potential = target.draw(Chosen(generator(2, block), block), theta)
        gradient = potential.grad(theta)
        assert gradient.shape == theta.shape
        slope = central(potential.value, theta)
        np.testing.assert_allclose(gradient, slope, rtol=1e-6, atol=1e-5)
        parts = potential.parts(theta)
        assert parts.plus.min() >= 0
        assert parts.minus.min() >= 0
        np.testing.assert_allclose(
            parts.plus - parts.minus + (1 - parts.shape) / theta, gradient, rtol=1e-9, atol=1e-9
        )
        values.append(potential.value(theta))
        gradients.append(gradient)
    np.testing.assert_allclose(np.mean(values, 0), dense_value(target, theta), rtol=1e-10)
    slope = central(lambda theta: dense_value(target, theta), theta)
    np.testing.assert_allclose(np.mean(gradients, 0), slope, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("alphas", ALPHAS, ids=str)
@pytest.mark.parametrize("chains", [(), (2, 3)])
def test_single_precision_is_kept_and_close_to_double(alphas, chains):
    single, theta = make(alphas, chains=chains, dtype=np.float32)
    double, _ = make(alphas, chains=chains)
    start = single.start(generator(4), chains)
    potential = single.draw(generator(5), theta)
    gradient = potential.grad(theta)
    arrays = [start, gradient, *potential.parts(theta), potential.value(theta)]
    arrays += [single.gain(theta), *single.latents.values()]
    assert {array.dtype for array in arrays} == {np.dtype(np.float32)}
    double.latents = {name: phi.astype(np.float64) for name, phi in single.latents.items()}
    exact = central(lambda theta: dense_value(double, theta), theta.astype(np.float64))
    np.testing.assert_allclose(gradient, exact, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("chains", [(), (2,)])
def test_start(chains):
    target, _ = make((1.0, 1.89), fixed=True, chains=chains)
    theta = target.start(generator(0), chains)
    assert theta.shape == (*chains, target.size)
    (fixed, _), (free, gains) = target.unpack(theta)
    assert fixed is target.sources[0].basis
    assert free.shape == (*chains, ROWS, 3)
    assert gains.shape == (*chains, 3, COLUMNS)
    assert np.shares_memory(gains, theta)
    np.testing.assert_allclose(free.sum(-2), 1)
    assert 0.01 <= gains.min() <= gains.max() <= 0.11
    assert {phi.shape for phi in target.latents.values()} == {(*chains, ROWS, COLUMNS)}


@pytest.mark.parametrize("chains", [(), (2,)])
@pytest.mark.parametrize("alphas", ALPHAS, ids=str)
def test_gain_is_a_share(alphas, chains):
    target, theta = make(alphas, chains=chains)
    gains = np.array([target.gain(theta, s) for s in range(len(alphas))])
    assert gains.shape == (len(alphas), *chains, ROWS, COLUMNS)
    assert gains.min() >= 0
    assert gains.max() <= 1
    np.testing.assert_allclose(gains.sum(0), 1, atol=1e-6)  # up to the floor
    sigma2 = FLOOR
    for s, (w, h) in enumerate(target.unpack(theta)):
        part = target.latents.get(f"phi{s}", 2.0) * (w @ h) ** (2 / alphas[s])
        sigma2 = sigma2 + part
        gains[s] /= part
    np.testing.assert_allclose(gains, np.broadcast_to(1 / sigma2, gains.shape), rtol=1e-10)


@pytest.mark.parametrize(
    ("message", "power", "sources", "blocks"),
    [
        (r"power must be a non-empty matrix, not of shape \(6,\)", (6,), [Source(1.0, 2)], 1),
        (r"power .* not of shape \(0, 5\)", (0, 5), [Source(1.0, 2)], 1),
        ("blocks must be from 1 to 6, not 0", (6, 5), [Source(1.0, 2)], 0),
        ("blocks must be from 1 to 6, not 7", (6, 5), [Source(1.0, 2)], 7),
        ("alpha of source 1 must be .* not 2.5", (6, 5), [Source(1.0, 2), Source(2.5, 2)], 1),
        ("rank of source 0 must be at least 1, not 0", (6, 5), [Source(1.0, 0)], 1),
        (r"shape \(5, 2\), not \(6, 2\)", (6, 5), [Source(1.0, 2, np.ones((5, 2)))], 1),
    ],
)
def test_what_does_not_fit_is_refused(message, power, sources, blocks):
    with pytest.raises(AlphaMFError, match=message):
        AlphaMFTarget(np.ones(power), sources, blocks=blocks)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("chains", "blocks"), [((), 1), ((), 3), ((2,), 1), ((2,), 3)])
def test_clips_together_are_clips_apart(dtype, chains, blocks):
    """Gradient, parts, gain and value of each clip, one with a basis of its own."""
    rng = np.random.default_rng(0)
    clips, rank = 3, 2
    power = rng.standard_exponential((clips, ROWS, COLUMNS)).astype(dtype)
    bases = rng.uniform(0.2, 1.0, (clips, ROWS, rank)).astype(dtype)
    prior = Gamma(0.5, 2.0)

    def model(power, basis):
        sources = [Source(1.2, rank, basis, prior_gains=prior), Source(1.89, 2)]
        return AlphaMFTarget(power, sources, blocks=blocks)

    together = model(power, bases)
    theta = together.start(generator(0), chains)
    assert theta.shape == (*chains, clips, together.size)
    potential = together.potential(slice(int(blocks > 1), None, blocks))
    every = [potential.grad(theta), *potential.parts(theta)[:2], potential.gain(theta, 0)]
    every = [x.copy() for x in (*every, potential.value(theta))]
    for clip in range(clips):
        alone = model(power[clip], bases[clip])
        alone.start(generator(1), chains)
        for name, latent in together.latents.items():
            alone.latents[name][...] = latent[..., clip, :, :]
        mine = np.ascontiguousarray(theta[..., clip, :])
        single = alone.potential(slice(int(blocks > 1), None, blocks))
        ones = [single.grad(mine), *single.parts(mine)[:2], single.gain(mine, 0)]
        ones.append(single.value(mine))
        tolerance = {"rtol": 1e-4, "atol": 1e-4} if dtype == np.float32 else {"rtol": 1e-10}
        for k, (one, all_of_them) in enumerate(zip(ones, every, strict=True)):
            part = all_of_them[(..., clip, *[slice(None)] * (0 if k == 4 else 2 if k == 3 else 1))]
            np.testing.assert_allclose(part, one, **tolerance)


def test_clips_move_by_themselves():
    """The Metropolis moves of a clip know nothing of another's loudness."""
    rng = np.random.default_rng(0)
    power = rng.standard_exponential((2, 40, 50)).astype(np.float32)
    shares = []
    for first in (power[:1], power):
        target = AlphaMFTarget(first, [Source(1.2, 2), Source(1.89, 2)])
        theta = target.start(generator(0))
        theta[...] = 0.5
        for k in range(20):
            target.draw(generator(k), theta)
        shares.append(np.array(target.acceptance))
    assert np.abs(shares[0] - shares[1]).max() < 0.02


@pytest.mark.parametrize(("chains", "clips"), [((), ()), ((2,), ()), ((2,), (3,)), ((), (3,))])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("large", [False, True])
def test_notes_are_the_gain_and_the_rows(chains, clips, dtype, large, monkeypatch):
    """Of a step's theta and Phi, whether tiles are whole chains or rows of a clip."""
    if large:
        monkeypatch.setattr(tiled, "CELLS", 12)
    power = np.random.default_rng(0).standard_exponential((*clips, ROWS, COLUMNS)).astype(dtype)
    target = AlphaMFTarget(power, [Source(1.2, 2), Source(1.89, 2)])
    theta = target.start(generator(0), chains)
    rng = generator(1)
    target.notes.request(gain=True, rows=True)
    for _ in range(2):
        target.draw_parts(rng, theta)
        np.testing.assert_allclose(target.notes.gain, target.gain(theta), rtol=2e-6)
        for one, other in zip(target.notes.rows, target.row_parts(theta, 0), strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-6)
    target.notes.request(rows=True)
    target.draw_parts(rng, theta)
    assert target.notes.gain is None
    assert target.notes.rows is not None
    target.draw_gradient(rng, theta)
    assert target.notes.rows is None


def test_notes_are_of_the_draw_and_not_of_a_rejected_proposal():
    """A trajectory asks for gradients elsewhere; its end may be rejected, as all are here."""
    power = np.random.default_rng(0).standard_exponential((ROWS, COLUMNS)).astype(np.float32)
    target = AlphaMFTarget(power, [Source(1.2, 2), Source(1.89, 2)])
    sampler = PositiveHMC(1e3, leaps=3, freeze=1)
    target.notes.request(gain=True)
    *_, last = run(target, sampler, steps=4, seed=0)
    assert last.accepted == 1  # before `freeze`
    np.testing.assert_allclose(target.notes.gain, target.gain(last.theta), rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("alphas", [(1.2,), (1.0, 1.89), (1.0, 2.0)])
@pytest.mark.parametrize("blocks", [1, 3])
def test_a_gradient_of_a_draw_is_that_of_its_potential(alphas, dtype, blocks):
    """One pass over the cells or two give the same Phi and gradients, to the bit."""
    (once, theta), (twice, _) = (
        make(alphas, fixed=True, chains=(2,), dtype=dtype, blocks=blocks) for _ in range(2)
    )
    once_rng, twice_rng = generator(3), generator(3)
    for _ in range(2):
        _, gradient = draw_gradient(once, once_rng, theta)
        expected = twice.draw(twice_rng, theta).grad(theta)
        np.testing.assert_array_equal(gradient, expected)
        _, parts = draw_parts(once, once_rng, theta)
        expected = twice.draw(twice_rng, theta).parts(theta)
        for one, other in zip(parts, expected, strict=True):
            np.testing.assert_array_equal(one, other)
    for name, latent in once.latents.items():
        np.testing.assert_array_equal(latent, twice.latents[name])
    assert once.acceptance == twice.acceptance


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize(("chains", "clips"), [((), ()), ((4,), (3,))])
def test_tiles_of_any_size_give_the_same(chains, clips, blocks, monkeypatch):
    """Values, gradients and shares of chains and clips, whole in one tile or row by row."""
    power = np.random.default_rng(0).standard_exponential((*clips, ROWS, COLUMNS))
    basis = np.random.default_rng(1).uniform(0.2, 1.0, (*clips, ROWS, 2))
    target = AlphaMFTarget(power, [Source(1.2, 2, basis), Source(1.89, 2)], blocks=blocks)
    theta = target.start(generator(0), chains)
    found = []
    for size in (1, 12, 60, 1000):
        monkeypatch.setattr(tiled, "CELLS", size)
        potential = target.potential(slice(blocks - 1, None, blocks))
        arrays = [potential.grad(theta), *potential.parts(theta)[:2], potential.value(theta)]
        found.append([*arrays, potential.gain(theta, 1), *potential.row_parts(theta, 0)])
    for others in zip(*found, strict=True):
        for other in others[1:]:
            np.testing.assert_allclose(others[0], other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("free", [False, True])
def test_where_both_factors_move_each_goes_half_of_the_way(free):
    """A step of EM takes a variance that is 16 times too large to 4 times, W fixed or not."""
    rows, columns = np.array([[1.0], [4.0]]), np.array([[1.0, 2.0, 3.0]])
    target = AlphaMFTarget(rows @ columns, [Source(2.0, 1, None if free else rows)])
    target.start(generator(0, 1))
    theta = np.concatenate([rows.ravel(), 8 * columns.ravel()]) if free else 8 * columns.ravel()
    sampler = EM()
    moved = sampler.step(generator(0, 2), sampler.init(generator(0, 2), theta), target).theta
    np.testing.assert_allclose(2 * target.variance(moved, 0), 4 * rows @ columns, rtol=1e-6)
