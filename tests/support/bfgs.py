"""L-BFGS matrices written out, pair by pair."""

import math

import numpy as np

from alphamf.inference.samplers import lbfgs

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


def dense_root(s, y, gamma=GAMMA):
    """S of one chain by eq. 11, corrected: printed are s'By under the root, and -y for y."""
    eye = np.eye(s.shape[-1])
    root = math.sqrt(gamma) * eye
    for k, (a, b) in enumerate(zip(s, y, strict=True)):
        inverse = np.linalg.inv(dense(s[:k], y[:k], gamma))
        ba = inverse @ a
        q = b - math.sqrt(a @ b / (a @ ba)) * ba
        root = (eye - np.outer(a / (a @ b), q)) @ root
    return root


def dense_rectangle(s, y, gamma=GAMMA):
    """F of one chain, shape (D, D + m), with F F' = H: the noise of HAMCMC is F (z, w).

    Pair by pair: H = (I - rho s y') H (I - rho y s') + rho s s' is a square more for each pair.
    """
    size = s.shape[-1]
    factor = math.sqrt(gamma) * np.eye(size)
    for a, b in zip(s, y, strict=True):
        rho = 1 / (a @ b)
        factor = factor - rho * np.outer(a, b) @ factor
        factor = np.concatenate([factor, math.sqrt(rho) * a[:, None]], axis=1)
    return factor


def matrix_of(product, s, y):
    """Return the matrix of a product with H of these pairs: its columns are images of units."""
    size = s.shape[-1]
    h = lbfgs.inverse_hessian(np.repeat(s[:, None], size, 1), np.repeat(y[:, None], size, 1), GAMMA)
    return getattr(h, product)(np.eye(size, dtype=s.dtype)).T
