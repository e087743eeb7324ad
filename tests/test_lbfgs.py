"""L-BFGS products against the matrices written out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from alphamf.samplers import lbfgs

GAMMA = 0.7


def pairs(m=4, chains=(3, 2), size=6, seed=0, dtype=np.float64):
    """Random pairs of a convex function with another Hessian at each, s'y > 0."""
    rng = np.random.default_rng(seed)
    s = rng.standard_normal((m, *chains, size))
    root = rng.standard_normal((m, *chains, size, size))
    hessian = root @ np.swapaxes(root, -1, -2) / size + 0.1 * np.eye(size)
    return s.astype(dtype), (hessian @ s[..., None])[..., 0].astype(dtype)


def dense(s, y, gamma=GAMMA):
    """H of one chain, pair by pair, as the BFGS update is printed (eq. 6)."""
    eye = np.eye(s.shape[-1])
    h = gamma * eye
    for a, b in zip(s, y, strict=True):
        rho = 1 / (a @ b)
        h = (eye - rho * np.outer(a, b)) @ h @ (eye - rho * np.outer(b, a))
        h += rho * np.outer(a, a)
    return h


def dense_root(s, y, *, printed, gamma=GAMMA):
    """S of one chain by eq. 11, as corrected or as printed."""
    eye = np.eye(s.shape[-1])
    root = math.sqrt(gamma) * eye
    for k, (a, b) in enumerate(zip(s, y, strict=True)):
        inverse = np.linalg.inv(dense(s[:k], y[:k], gamma))
        ba = inverse @ a
        if printed:
            q = math.sqrt(abs(a @ b / (b @ ba))) * ba - b
        else:
            q = b - math.sqrt(a @ b / (a @ ba)) * ba
        root = (eye - np.outer(a / (a @ b), q)) @ root
    return root


def matrix_of(product, s, y):
    """Return the matrix of a product form: its columns are the images of unit vectors."""
    size = s.shape[-1]
    repeat = np.repeat(s[:, None], size, 1), np.repeat(y[:, None], size, 1)
    return product(*repeat, GAMMA, np.eye(size, dtype=s.dtype)).T


@pytest.mark.parametrize("m", [0, 1, 2, 5])
@pytest.mark.parametrize("chains", [(), (4,), (3, 2)])
def test_products_are_those_of_the_dense_twins_in_every_chain(m, chains):
    s, y = pairs(m, chains)
    v = np.random.default_rng(1).standard_normal((*chains, 6))
    applied, rooted = lbfgs.apply(s, y, GAMMA, v), lbfgs.root(s, y, GAMMA, v)
    assert applied.shape == rooted.shape == v.shape
    for chain in np.ndindex(*chains):
        mine = (slice(None), *chain)
        h = dense(s[mine], y[mine])
        np.testing.assert_allclose(applied[chain], h @ v[chain], rtol=1e-10)
        root = dense_root(s[mine], y[mine], printed=False)
        np.testing.assert_allclose(rooted[chain], root @ v[chain], rtol=1e-10)


@pytest.mark.parametrize("m", [1, 2, 5])
def test_root_times_its_transpose_is_the_inverse_hessian(m):
    s, y = pairs(m, ())
    root = matrix_of(lbfgs.root, s, y)
    np.testing.assert_allclose(root @ root.T, dense(s, y), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(matrix_of(lbfgs.apply, s, y), dense(s, y), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("m", [0, 1, 2, 5])
@pytest.mark.parametrize("chains", [(), (3, 2)])
def test_inverse_root_is_the_inverse_transpose_of_the_root(m, chains):
    s, y = pairs(m, chains)
    v = np.random.default_rng(1).standard_normal((*chains, 6))
    got = lbfgs.inverse_root(s, y, GAMMA, v)
    for chain in np.ndindex(*chains):
        mine = (slice(None), *chain)
        root = dense_root(s[mine], y[mine], printed=False)
        np.testing.assert_allclose(got[chain], np.linalg.solve(root.T, v[chain]), rtol=1e-9)
    one = (slice(None), *(0 for _ in chains))
    half = matrix_of(lbfgs.inverse_root, s[one], y[one])
    inverse = np.linalg.inv(dense(s[one], y[one]))
    np.testing.assert_allclose(half @ half.T, inverse, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("m", [1, 3])
def test_printed_root_is_not_a_root(m):
    # Eq. 11 as printed: s'By for s'Bs under the square root, and y with the other sign.
    s, y = pairs(m, ())
    corrected = dense_root(s, y, printed=False)
    printed = dense_root(s, y, printed=True)
    h = dense(s, y)
    assert np.abs(corrected @ corrected.T - h).max() < 1e-10
    assert np.abs(printed @ printed.T - h).max() > 0.1 * np.abs(h).max()


def test_latest_pair_satisfies_the_secant_equation():
    s, y = pairs()
    np.testing.assert_allclose(lbfgs.apply(s, y, GAMMA, y[-1]), s[-1], rtol=1e-9)


def test_arguments_stay_as_they_are():
    s, y = pairs()
    v = np.ones((3, 2, 6))
    copies = [array.copy() for array in (s, y, v)]
    lbfgs.apply(s, y, GAMMA, v)
    lbfgs.root(s, y, GAMMA, v)
    lbfgs.inverse_root(s, y, GAMMA, v)
    for array, copy in zip((s, y, v), copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_bad_pairs_are_skipped_in_their_own_chain_only():
    s, y = pairs(3, (4,))
    whole = s.copy(), y.copy()
    y[1, 0] *= -1  # negative curvature
    s[2, 1] = y[2, 1] = 0  # an empty place
    y[0, 2] -= s[0, 2] * (s[0, 2] @ y[0, 2]) / (s[0, 2] @ s[0, 2])  # orthogonal up to rounding
    v = np.random.default_rng(2).standard_normal((4, 6))
    left = [[0, 2], [0, 1], [1, 2], [0, 1, 2]]
    for product, twin in (
        (lbfgs.apply, dense),
        (lbfgs.root, lambda s, y: dense_root(s, y, printed=False)),
        (lbfgs.inverse_root, lambda s, y: np.linalg.inv(dense_root(s, y, printed=False)).T),
    ):
        got = product(s, y, GAMMA, v)
        for chain, kept in enumerate(left):
            matrix = twin(whole[0][kept, chain], whole[1][kept, chain])
            np.testing.assert_allclose(got[chain], matrix @ v[chain], rtol=1e-8)


def test_float32_stays_float32_and_close():
    s, y = pairs(seed=3)
    v = np.random.default_rng(3).standard_normal((3, 2, 6))
    for product in (lbfgs.apply, lbfgs.root, lbfgs.inverse_root):
        expected = product(s, y, GAMMA, v)
        got = product(s.astype(np.float32), y.astype(np.float32), GAMMA, v.astype(np.float32))
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


def test_root_stays_a_root_in_float32_at_a_bad_condition():
    rng = np.random.default_rng(5)
    basis, _ = np.linalg.qr(rng.standard_normal((6, 6)))
    hessian = (basis * np.geomspace(1, 1e4, 6)) @ basis.T
    s = rng.standard_normal((3, 6))
    s, y = s.astype(np.float32), (s @ hessian).astype(np.float32)
    root = matrix_of(lbfgs.root, s, y).astype(float)
    # Relative to H in every direction: H^-1/2 S S' H^-1/2 is the identity.
    half = np.linalg.inv(np.linalg.cholesky(dense(s.astype(float), y.astype(float))))
    np.testing.assert_allclose(half @ root @ root.T @ half.T, np.eye(6), atol=5e-3)
