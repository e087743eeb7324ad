"""Stable draws against their Laplace transform, their characteristic function and scipy's laws."""

import itertools

import numpy as np
import pytest
from scipy import stats

from alphamf.errors import AlphaMFError
from alphamf.factorization.stable import check_alpha, positive_stable, symmetric_stable
from alphamf.inference.random import generator, uniform

ALPHAS = [0.5, 0.8, 1.0, 1.2, 1.5, 1.89, 1.99, 2.0]
THRESHOLD = 1e-4


def draws(alpha: float, count: int, *key: int, dtype=np.float32):
    return positive_stable(generator(1, *key), alpha, np.empty(count, dtype))


def z_scores(values, expected):
    """Return the standardised error of each row's mean."""
    error = values.mean(-1) - expected
    return error / np.maximum(values.std(-1) / np.sqrt(values.shape[-1]), 1e-9)


@pytest.mark.parametrize(
    ("alpha", "dtype"), [*((each, np.float32) for each in ALPHAS), (1.0, np.float64)]
)
def test_laplace_transform(alpha, dtype):
    """E exp(-t Phi) = exp(-(2t)^(alpha/2)) at several t."""
    phi = draws(alpha, 400_000, dtype=dtype)
    assert phi.dtype == dtype
    t = np.array([[0.02], [0.1], [0.5], [2.0], [8.0]])
    z = z_scores(np.exp(-t * phi.astype(np.float64)), np.exp(-((2 * t[:, 0]) ** (alpha / 2))))
    assert np.abs(z).max() < 4


@pytest.mark.parametrize("alpha", [0.8, 1.2, 1.6, 1.89])
def test_scale_of_eq_16_corrected(alpha):
    """Kanter's draws follow scipy's one-sided law of the corrected scale, not of the printed."""
    theirs = stats.levy_stable(alpha / 2, 1.0).rvs(20_000, random_state=np.random.default_rng(2))
    ours = draws(alpha, 20_000)
    scale = 2 * np.cos(np.pi * alpha / 4) ** (2 / alpha)
    assert stats.ks_2samp(ours, scale * theirs).pvalue > THRESHOLD
    if np.cos(np.pi * alpha) > 0:  # the printed power is not a number elsewhere
        printed = 2 * (np.cos(np.pi * alpha) / 4) ** (2 / alpha)
        assert stats.ks_2samp(ours, printed * theirs).pvalue < THRESHOLD


def test_levy_law_at_alpha_one():
    assert stats.kstest(draws(1.0, 200_000), stats.levy.cdf).pvalue > THRESHOLD


@pytest.mark.parametrize("alpha", [0.5, 0.8, 1.0, 1.2, 1.89, 2.0])
def test_symmetric_draws_are_isotropic(alpha):
    """E exp(i Re(conj(z) x)) = exp(-(|z|^2 / 2)^(alpha/2)) in several directions."""
    x = symmetric_stable(generator(4), alpha, (100_000,))
    assert x.dtype == np.complex64
    radius = np.array([0.3, 1.0, 3.0])[:, None, None]
    angle = np.array([0.0, 0.8, np.pi / 2, 2.5])[:, None]
    wave = np.cos((radius * np.exp(-1j * angle) * x.astype(np.complex128)).real)
    z = z_scores(wave, np.exp(-((radius[..., 0] ** 2 / 2) ** (alpha / 2))))
    assert np.abs(z).max() < 4
    assert stats.ks_2samp(x[:50_000].real, (np.exp(0.7j) * x[50_000:]).real).pvalue > THRESHOLD


def test_alpha_two_is_constant():
    assert (draws(2.0, 100) == 2).all()
    x = symmetric_stable(generator(7), 2.0, (100_000,))
    assert z_scores(np.abs(x)[None] ** 2, 2.0)[0] == pytest.approx(0, abs=4)


class Extremes:
    """A generator whose random words are all zeros or all ones, in turn as given."""

    def __init__(self, *ones: bool) -> None:
        self.ones = list(ones)
        self.bit_generator = self

    def random_raw(self, count):
        return np.full(count, 2**64 - 1 if self.ones.pop(0) else 0, np.uint64)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("alpha", [0.5, 0.8, 1.0, 1.2, 1.89, 1.9999])
def test_extreme_uniforms_stay_finite(alpha, dtype):
    for first, second in itertools.product([False, True], repeat=2):
        phi = positive_stable(Extremes(first, second), alpha, np.empty(3, dtype))
        assert np.isfinite(phi).all()
        assert (phi > 0).all()


@pytest.mark.parametrize(("dtype", "step"), [(np.float32, 2.0**-23), (np.float64, 2.0**-52)])
def test_uniform_draws_lie_inside_the_open_interval(dtype, step):
    assert uniform(Extremes(False), np.empty(3, dtype)).tolist() == [step / 2] * 3
    assert uniform(Extremes(True), np.empty(3, dtype)).tolist() == [1 - step / 2] * 3
    u = uniform(generator(8), np.empty((3, 33_333), dtype))
    assert u.dtype == dtype
    assert stats.kstest(u.ravel(), "uniform").pvalue > THRESHOLD
    # Odd multiples of half a step: none is lost, and none more likely than its neighbours.
    assert ((u.astype(np.float64) - step / 2) % step == 0).all()
    assert np.abs(np.corrcoef(u)[np.triu_indices(3, 1)]).max() < 4 / np.sqrt(33_333)


@pytest.mark.parametrize("alpha", [0.49, 2.01, -1.0, float("nan")])
def test_alpha_out_of_range_is_refused(alpha):
    with pytest.raises(AlphaMFError, match=f"alpha of speech must be from 0.5 to 2, not {alpha}"):
        check_alpha(alpha, "alpha of speech")
    with pytest.raises(AlphaMFError):
        draws(alpha, 3)
