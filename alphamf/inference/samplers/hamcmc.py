r"""HAMCMC: Langevin moves preconditioned by the L-BFGS inverse Hessian, and the naive chain."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any, ClassVar, NamedTuple

from alphamf.inference.draws import draw_gradient
from alphamf.inference.protocols import Need, Potential, Schedule, Target
from alphamf.inference.random import noise
from alphamf.inference.samplers import compact, lbfgs
from alphamf.inference.samplers.reflect import reflect
from alphamf.inference.schedule import Held, step_size_at
from alphamf.tools.arrays import Array, namespace


class HAMCMCState(NamedTuple):
    """Newest sample, number of steps, and the memory, in ring buffers.

    A step reuses the memory of its input state and writes into it: after the next step, only theta
    and step of a state are still valid.
    """

    theta: Array  # Newest sample, shape (*chains, D)
    step: int  # Number of steps made
    # The samples still to be moved from, shape (M, *chains, D); the oldest at step modulo M.
    past: Array
    # s, y: displacements and gradient differences, shape (M - 1, *chains, D), zero while empty; the
    # oldest at step modulo M - 1.
    s: Array
    y: Array
    products: compact.Products  # Inner products of the pairs


@dataclass(frozen=True)
class HAMCMC:
    r"""Hessian approximated MCMC.

    .. math:: \theta_t = \theta_{t-M} - h H_t \nabla \tilde U_{\Omega_t}(\theta_{t-M})
       + \mathcal{N}(0, 2 h H_t),

    with H_t of L-BFGS from the M - 1 latest pairs

    .. math:: s_t = \theta_t - \theta_{t-M}, \qquad
       y_t = \nabla \tilde U_{\Omega_t}(\theta_t) - \nabla \tilde U_{\Omega_t}(\theta_{t-M})
       + \lambda s_t,

    both gradients on one minibatch (and one draw of the latents, given theta_{t-M}). No pair in
    H_t starts or ends at theta_{t-M}, so H_t is no function of it and no Gamma is added: M
    interleaved Langevin chains use each other's curvature. The paper's 2M + 1 initial samples
    are M copies of the start here, with an empty memory (H = gamma I) that fills in M - 1 steps.

    H_t is not quite independent of theta_{t-M}, as the paper's proof takes it to be: the pairs
    were displacements under matrices that depended on it, and so do their directions. Where the
    curvature is constant this costs nothing; where it is not, a bias stays that does not shrink
    with h: for U = |theta|^4 / 4 in the plane and gamma = lambda = 1, -5 % of E|theta|^2 for M = 2
    and -1 % for M = 5, where the naive chain is 30 % off (docs/samplers.md). Latents are shared by
    the M chains, so they should move fast.

    On a positive target samples are mirrored, as in the paper, although H is dense, which is right
    only where H is nearly diagonal: a lambda above the curvatures makes it so (docs/samplers.md has
    figures).

    The step size is held over blocks of M steps (the paper's condition 1), so that a decreasing
    one treats the M chains alike.

    Attributes
    ----------
    step_size
        h, a number or a function of the step index.
    memory
        M, at least 2.
    gamma
        Scale of the initial inverse Hessian.
    trust
        lambda, which shrinks H towards (Hessian + lambda)^-1; large enough, it keeps s'y > 0 where
        U is not convex.

    References
    ----------
    Simsekli et al., ICML 2016, algorithm 1 and eq. 10. The noise is drawn from the compact form of
    H and not by the square root of eq. 11, which is printed with s'By in the place of s'Bs, and
    with the opposite sign of y, for which it is no root of H
    (``tests/inference/samplers/test_lbfgs.py``).

    Examples
    --------
    >>> import numpy as np
    >>> from alphamf.inference.chain import run
    >>> from alphamf.inference.targets.gaussian import LinearGaussian
    >>> target = LinearGaussian(np.eye(2), np.ones(2), 1.0)  # its posterior is N(1/2, I/2)
    >>> *_, last = run(target, HAMCMC(0.05, memory=3, gamma=0.5), steps=300, seed=0, chains=(4000,))
    >>> last.theta.mean(0).round(1), last.theta.var(0).round(1)
    (array([0.5, 0.5]), array([0.5, 0.5]))
    """

    needs: ClassVar[tuple[Need, ...]] = ("bounded gradient",)

    step_size: Schedule = 1e-3
    memory: int = 2
    gamma: float = 1.0
    trust: float = 0.0

    def __post_init__(self) -> None:
        """Check the hyperparameters."""
        lbfgs.check_pairs(self.memory, 2, self.gamma, self.trust)

    @property
    def turns(self) -> int:
        """Number of chains that move in turn: `memory`."""
        return self.memory

    def init(self, rng: Any, theta: Array) -> HAMCMCState:
        """Return the initial state at theta, of shape (*chains, D), with an empty memory."""
        return _init(theta, self.memory, self.memory - 1)

    def step(self, rng: Any, state: HAMCMCState, target: Target[Potential]) -> HAMCMCState:
        """Make one step, with two gradients."""
        h = Held(self.step_size, self.memory)(state.step)
        return _step(rng, state, target, h, self.gamma, self.trust)


@dataclass(frozen=True)
class NaiveQN:
    r"""The naive quasi-Newton chain, which does *not* target the posterior: a baseline.

    Every step moves from the newest sample, which H depends on, and no Gamma is added. Fields as
    in `HAMCMC`; H is made from the M - 1 latest pairs, that is from M samples.

    Attributes
    ----------
    step_size, memory, gamma, trust
        As in `HAMCMC`.

    References
    ----------
    Simsekli et al., ICML 2016, eq. 7 and proposition 1.

    Examples
    --------
    >>> NaiveQN(0.05, memory=3).needs
    ('bounded gradient',)
    """

    needs: ClassVar[tuple[Need, ...]] = ("bounded gradient",)

    step_size: Schedule = 1e-3
    memory: int = 2
    gamma: float = 1.0
    trust: float = 0.0

    def __post_init__(self) -> None:
        """Check the hyperparameters."""
        lbfgs.check_pairs(self.memory, 2, self.gamma, self.trust)

    def init(self, rng: Any, theta: Array) -> HAMCMCState:
        """Return the initial state at theta, of shape (*chains, D), with an empty memory."""
        return _init(theta, 1, self.memory - 1)

    def step(self, rng: Any, state: HAMCMCState, target: Target[Potential]) -> HAMCMCState:
        """Make one step, with two gradients."""
        h = step_size_at(self.step_size, state.step)
        return _step(rng, state, target, h, self.gamma, self.trust)


def _init(theta: Array, lag: int, pairs: int) -> HAMCMCState:
    xp = namespace(theta)
    s, y = (xp.zeros((pairs, *theta.shape), theta.dtype) for _ in range(2))
    return HAMCMCState(theta, 0, xp.stack([theta] * lag), s, y, compact.products(s, y))


def _step(
    rng: Any,
    state: HAMCMCState,
    target: Target[Potential],
    h: float,
    gamma: float,
    trust: float,
) -> HAMCMCState:
    """Move from the oldest sample, and overwrite the oldest sample and pair with the new ones."""
    _, step, past, s, y, products = state
    place = step % len(s)
    origin = past[step % len(past)]
    potential, before = draw_gradient(target, rng, origin)
    inverse = lbfgs.from_products(s, y, gamma, products, oldest=place)
    new = inverse.apply(before)
    new *= -h
    new += origin
    xp = namespace(past)
    # One number for each pair, by age, so that the ring makes no difference.
    kick = inverse.draw(noise(rng, origin), xp.roll(noise(rng, inverse.form.sy), place, -1))
    kick *= sqrt(2 * h)
    new += kick
    reflect(new, target)
    xp.subtract(new, origin, out=s[place])
    xp.subtract(potential.grad(new), before, out=y[place])
    if trust:
        y[place] += trust * s[place]
    past[step % len(past)] = new
    return HAMCMCState(new, step + 1, past, s, y, compact.update_products(products, s, y, place))
