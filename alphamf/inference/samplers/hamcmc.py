r"""HAMCMC, Langevin moves preconditioned by the L-BFGS inverse Hessian, and a naive baseline."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from alphamf.inference.draws import draw_gradient
from alphamf.inference.protocols import Need, Potential, Schedule, Target
from alphamf.inference.random import noise
from alphamf.inference.ranges import NOT_NEGATIVE, POSITIVE, at_least, check_ranges
from alphamf.inference.samplers import lbfgs
from alphamf.inference.samplers.reflect import reflect
from alphamf.inference.schedule import Held, square_root
from alphamf.tools.arrays import Array, namespace, put


class HAMCMCState(NamedTuple):
    """Newest sample, number of steps, and the memory, in ring buffers that the next step reuses."""

    theta: Array  # Newest sample, shape (*chains, D)
    step: int  # Number of steps made
    # Samples that later steps move from, shape (turns, *chains, D); oldest at step modulo turns.
    past: Array
    # s, y: displacements and gradient differences, shape (M - 1, *chains, D), zero while empty; the
    # oldest at step modulo M - 1.
    s: Array
    y: Array
    products: lbfgs.Products  # Inner products of the pairs


@dataclass(frozen=True)
class _QuasiNewton:
    """Langevin moves from the sample `turns` steps before the new one, with the H of `HAMCMC`."""

    needs: ClassVar[tuple[Need, ...]] = ("bounded gradient",)

    step_size: Schedule = 1e-3
    memory: int = 2
    gamma: float = 1.0
    trust: float = 0.0

    def __post_init__(self) -> None:
        check_ranges(self, memory=at_least(2), gamma=POSITIVE, trust=NOT_NEGATIVE)

    @property
    def turns(self) -> int:
        return 1

    def init(self, rng: Any, theta: Array) -> HAMCMCState:
        xp = namespace(theta)
        s, y = (xp.zeros((self.memory - 1, *theta.shape), theta.dtype) for _ in range(2))
        past = xp.stack([theta] * self.turns)
        return HAMCMCState(theta, 0, past, s, y, lbfgs.products(s, y))

    def step(self, rng: Any, state: HAMCMCState, target: Target[Potential]) -> HAMCMCState:
        # The new sample and pair are written over the oldest ones.
        _, step, past, s, y, products = state
        h = Held(self.step_size, self.turns)(step)
        place = step % len(s)
        origin = past[step % len(past)]
        potential, before = draw_gradient(target, rng, origin)
        inverse = lbfgs.from_products(s, y, self.gamma, products, oldest=place)
        new = inverse.apply(before)
        new *= -h
        new += origin
        xp = namespace(past)
        # One number for each pair, by age, so that the ring makes no difference.
        kick = inverse.draw(noise(rng, origin), xp.roll(noise(rng, inverse.form.sy), place, -1))
        kick *= square_root(2 * h)
        new += kick
        new = reflect(new, target)
        moved, change = new - origin, potential.grad(new) - before
        if self.trust:
            change += self.trust * moved
        s, y, past = put(s, place, moved), put(y, place, change), put(past, step % len(past), new)
        return HAMCMCState(new, step + 1, past, s, y, lbfgs.update_products(products, s, y, place))


class HAMCMC(_QuasiNewton):
    r"""Hessian approximated MCMC.

    .. math:: \theta_t = \theta_{t-M} - h H_t \nabla \tilde U_{\Omega_t}(\theta_{t-M})
       + \mathcal{N}(0, 2 h H_t),

    with H_t of L-BFGS from the M - 1 latest pairs

    .. math:: s_t = \theta_t - \theta_{t-M}, \qquad
       y_t = \nabla \tilde U_{\Omega_t}(\theta_t) - \nabla \tilde U_{\Omega_t}(\theta_{t-M})
       + \lambda s_t,

    both gradients on one minibatch Omega_t and one draw of the latents. M interleaved Langevin
    chains share latents and use each other's curvature; they start at one point with H = gamma I.
    The posterior is invariant up to O(h) if the curvature is constant; if it is not, there is a
    bias that does not shrink with h. On a positive target samples are mirrored, as in the paper,
    which is correct only if H is nearly diagonal. The step size is constant over blocks of M steps.

    Attributes
    ----------
    step_size
        h, a number or a function of the step index.
    memory
        M, at least 2.
    gamma
        Scale of the initial inverse Hessian.
    trust
        lambda, which shrinks H towards (Hessian + lambda)^-1; if large enough, it keeps s'y > 0
        where U is not convex.

    References
    ----------
    Simsekli et al., ICML 2016, algorithm 1 and eq. 10; the noise is drawn from the compact form of
    H.

    Examples
    --------
    >>> HAMCMC(0.05, memory=3, gamma=0.5).turns  # run as in the example of `SGLD`
    3
    """

    @property
    def turns(self) -> int:
        return self.memory


class NaiveQN(_QuasiNewton):
    """The naive quasi-Newton chain, a baseline that does *not* have the posterior as its law.

    Every step moves from the newest sample, which H depends on; attributes as in `HAMCMC`.

    References
    ----------
    Simsekli et al., ICML 2016, eq. 7 and proposition 1.

    Examples
    --------
    >>> NaiveQN(0.05, memory=3).needs
    ('bounded gradient',)
    """
