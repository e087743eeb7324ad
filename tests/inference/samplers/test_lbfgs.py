"""L-BFGS products against the matrices written out, pair by pair."""

import numpy as np
import pytest

from alphamf.inference.samplers import lbfgs
from tests.support.bfgs import GAMMA, dense, dense_rectangle, dense_root, matrix_of, pairs


def rectangle_of(s, y):
    """Return the matrix of `draw`, shape (D, D + m)."""
    m, size = s.shape
    units = np.eye(size + m, dtype=s.dtype)
    h = lbfgs.inverse_hessian(
        np.repeat(s[:, None], len(units), 1), np.repeat(y[:, None], len(units), 1), GAMMA
    )
    return h.draw(units[:, :size], units[:, size:]).T


@pytest.mark.parametrize("m", [0, 1, 2, 5])
@pytest.mark.parametrize("chains", [(), (4,), (3, 2)])
def test_products_are_those_of_the_dense_twins_in_every_chain(m, chains):
    s, y = pairs(m, chains)
    rng = np.random.default_rng(1)
    v, w = rng.standard_normal((*chains, 6)), rng.standard_normal((*chains, m))
    h = lbfgs.inverse_hessian(s, y, GAMMA)
    applied, drawn, rooted = h.apply(v), h.draw(v, w), h.inverse_root(v)
    assert applied.shape == drawn.shape == rooted.shape == v.shape
    for chain in np.ndindex(*chains):
        mine = (slice(None), *chain)
        twin, factor = dense(s[mine], y[mine]), dense_rectangle(s[mine], y[mine])
        noise = np.concatenate([v[chain], w[chain]])
        root = dense_root(s[mine], y[mine])
        np.testing.assert_allclose(applied[chain], twin @ v[chain], rtol=1e-10)
        np.testing.assert_allclose(drawn[chain], factor @ noise, rtol=1e-10)
        np.testing.assert_allclose(rooted[chain], np.linalg.solve(root.T, v[chain]), rtol=1e-9)


@pytest.mark.parametrize("m", [1, 2, 5])
def test_draws_have_covariance_h_and_its_inverse(m):
    s, y = pairs(m, ())
    h = dense(s, y)
    np.testing.assert_allclose(matrix_of("apply", s, y), h, rtol=1e-10, atol=1e-10)
    factor, root = rectangle_of(s, y), matrix_of("inverse_root", s, y)
    np.testing.assert_allclose(factor @ factor.T, h, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(root @ root.T, np.linalg.inv(h), rtol=1e-9, atol=1e-9)


def test_bad_pairs_are_skipped_in_their_own_chain_only():
    s, y = pairs(3, (4,))
    whole = s.copy(), y.copy()
    y[1, 0] *= -1  # negative curvature
    s[2, 1] = y[2, 1] = 0  # an empty place
    y[0, 2] -= s[0, 2] * (s[0, 2] @ y[0, 2]) / (s[0, 2] @ s[0, 2])  # orthogonal up to rounding
    rng = np.random.default_rng(2)
    v, w = rng.standard_normal((4, 6)), rng.standard_normal((4, 3))
    h = lbfgs.inverse_hessian(s, y, GAMMA)
    for chain, kept in enumerate([[0, 2], [0, 1], [1, 2], [0, 1, 2]]):
        good = whole[0][kept, chain], whole[1][kept, chain]
        noise = np.concatenate([v[chain], w[chain, kept]])
        root = dense_root(*good)
        np.testing.assert_allclose(h.apply(v)[chain], dense(*good) @ v[chain], rtol=1e-8)
        np.testing.assert_allclose(h.draw(v, w)[chain], dense_rectangle(*good) @ noise, rtol=1e-8)
        np.testing.assert_allclose(
            h.inverse_root(v)[chain], np.linalg.solve(root.T, v[chain]), rtol=1e-8
        )


def test_draws_keep_their_covariance_in_float32_at_a_bad_condition():
    rng = np.random.default_rng(5)
    basis, _ = np.linalg.qr(rng.standard_normal((6, 6)))
    hessian = (basis * np.geomspace(1, 1e4, 6)) @ basis.T
    s = rng.standard_normal((3, 6))
    s, y = s.astype(np.float32), (s @ hessian).astype(np.float32)
    factor = rectangle_of(s, y).astype(float)
    # Relative to H in every direction: H^-1/2 F F' H^-1/2 is the identity.
    half = np.linalg.inv(np.linalg.cholesky(dense(s.astype(float), y.astype(float))))
    np.testing.assert_allclose(half @ factor @ factor.T @ half.T, np.eye(6), atol=5e-3)
