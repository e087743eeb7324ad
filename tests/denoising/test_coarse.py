"""The first fit on some of the rows."""

from __future__ import annotations

import numpy as np
import pytest

from alphamf.denoising import coarse
from alphamf.denoising.sampling import warm_up
from alphamf.denoising.settings import kernel
from alphamf.factorization.alpha_mf import AlphaMF, Source
from alphamf.factorization.priors import Gamma
from alphamf.inference.random import generator
from alphamf.tools.arrays import to_host
from tests.support import device

ROWS, COLUMNS, RANK = 403, 60, 8


def planted(xp=np, clips=()):
    """Return the posterior of a source with a known W of smooth spectra, and of a faint one."""
    rng = np.random.default_rng(0)
    place = np.arange(ROWS)[:, None]
    basis = 0.05 + np.exp(-0.5 * ((place - rng.uniform(0, ROWS, RANK)) / 25) ** 2)
    gains = rng.gamma(0.3, 3.0, (*clips, RANK, COLUMNS))
    power = (basis @ gains + 0.02) * rng.standard_exponential((*clips, ROWS, COLUMNS))
    basis, power = (xp.asarray(array.astype(np.float32)) for array in (basis, power))
    speech = Source(1.0, RANK, basis, prior_gains=Gamma(0.1, 20.0), level=2e-3)
    return AlphaMF(power, [speech, Source(1.89, 2, prior_gains=Gamma(30.0, 30.0))])


def fitted(target, start, steps):
    return coarse.fit(target, start, steps, kernel("em"), (3, 5))


def mismatch(target, theta) -> float:
    """Return the value of U at Phi as it is from the start."""
    return float(np.sum(target.potential().value(theta)))


@pytest.mark.parametrize(("chains", "clips"), [((), ()), ((2,), ()), ((), (3,)), ((2,), (3,))])
def test_it_goes_further_than_as_much_work_on_all_rows(chains, clips):
    target = planted(clips=clips)
    start = target.start(generator(0), chains)
    theta = fitted(target, start.copy(), 40)
    assert theta.shape == start.shape
    assert theta.dtype == start.dtype
    assert theta.min() >= 0
    full = warm_up(target, start, 5, 3, 5)
    target.start(generator(9), chains)
    assert mismatch(target, theta) < mismatch(target, full) < mismatch(target, start)


def test_the_same_seed_gives_the_same_bits_and_no_steps_the_start():
    target = planted()
    start = target.start(generator(0))
    before = start.copy(), target.latents["phi0"].copy()
    first, second = (fitted(target, start, 3) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(start, before[0])
    np.testing.assert_array_equal(target.latents["phi0"], before[1])
    assert fitted(target, start, 0) is start


def test_on_a_device(monkeypatch):
    cupy = device.install(monkeypatch)
    target = planted(cupy)
    theta = fitted(target, target.start(generator(0, xp=cupy)), 3)
    assert type(theta).__module__ == "cupy"
    assert np.isfinite(to_host(theta)).all()
