r"""L-BFGS pairs between chains: the inverse Hessian is independent of the chain that moves.

M chains move in turn, as in `HAMCMC`, whose pairs lie along the chains,
:math:`\theta_t - \theta_{t-M}`. The matrices of the other chains depended on this chain, and if it
has a momentum, or if two step sizes are compared, the directions of their pairs depend on it: its
variance is then a fifth too small, at any step size. Here a pair is the difference of
two chains' newest samples, :math:`\theta_t - \theta_{t-1}`, with both gradients on one minibatch,
and H of a move is made from the M - 2 pairs between the other chains. It then depends only on
these, so that moving one chain given the others preserves the product of their laws, as in
`HMCBFGS`, whatever H is.
"""

from __future__ import annotations

from typing import NamedTuple

from alphamf.inference.samplers import compact, lbfgs
from alphamf.tools.arrays import Array, namespace


class Members(NamedTuple):
    """The chains and the pairs between them, stored in ring buffers."""

    # The chains' newest samples, shape (M, *chains, D); the next to move at step modulo M.
    past: Array
    # s, y: displacements and gradient differences, shape (M - 2, *chains, D), zero while empty; the
    # oldest at step modulo M - 2.
    s: Array
    y: Array
    products: compact.Products  # Inner products of the pairs


def check(memory: int, gamma: float, trust: float) -> None:
    """Raise an AlphaMFError if a hyperparameter is out of range, such as fewer than 3 chains."""
    lbfgs.check_pairs(memory, 3, gamma, trust)


def start_members(theta: Array, memory: int) -> Members:
    """Return an ensemble of M chains, all at theta, of shape (*chains, D), without pairs."""
    xp = namespace(theta)
    s, y = (xp.zeros((memory - 2, *theta.shape), theta.dtype) for _ in range(2))
    return Members(xp.stack([theta] * memory), s, y, compact.products(s, y))


def inverse(members: Members, step: int, gamma: float) -> lbfgs.InverseHessian:
    """Return H for the chain that moves in a step, made from the pairs between the other chains."""
    _, s, y, products = members
    return lbfgs.from_products(s, y, gamma, products, oldest=step % len(s))


def insert_sample(
    members: Members, step: int, new: Array, s_new: Array, y_new: Array, trust: float
) -> Members:
    """Replace a chain's last sample by a new one, and the oldest pair by the new pair."""
    past, s, y, products = members
    past[step % len(past)] = new
    place = step % len(s)
    s[place], y[place] = s_new, y_new
    if trust:
        y[place] += trust * s_new
    return Members(past, s, y, compact.update_products(products, s, y, place))
