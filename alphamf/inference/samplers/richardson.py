r"""Richardson-Romberg extrapolation: chains at steps h, h / 2, ... whose errors cancel.

A pair's coarse chain uses the normal noise of two fine moves, which keeps the variance small,

.. math:: Z^\mathrm{coarse} = (Z_1 + Z_2) / \sqrt 2.

Each gradient has its own minibatch, all of one size, so all biases are one function of step size.
"""

from dataclasses import dataclass
from math import prod, sqrt
from typing import Any, ClassVar, NamedTuple

from alphamf.errors import AlphaMFError
from alphamf.inference.draws import draw_gradient
from alphamf.inference.protocols import Need, Potential, Schedule, Target
from alphamf.inference.random import noise
from alphamf.inference.ranges import FINITE, Range, check_ranges
from alphamf.inference.samplers.reflect import reflect
from alphamf.inference.schedule import step_size_at
from alphamf.tools.arrays import Array, namespace


class SGRRLDState(NamedTuple):
    """Both chains after a number of steps."""

    theta: Array  # The fine chain's newest position, shape (*chains, D)
    step: int  # Number of steps made, each with three gradients
    middle: Array  # The fine chain's position half a step earlier, of the shape of theta
    coarse: Array  # The coarse chain's position, of the shape of theta
    size: float  # h of the step that led here, which is its weight in `Extrapolated`


@dataclass(frozen=True)
class SGRRLD:
    r"""Stochastic gradient Richardson-Romberg Langevin dynamics.

    .. math:: \theta_{k + 1/2} &= \theta_k - \tfrac h2 \nabla \tilde U(\theta_k) + \sqrt h\, Z_1,
       \qquad \theta_{k + 1} = \theta_{k + 1/2}
       - \tfrac h2 \nabla \tilde U(\theta_{k + 1/2}) + \sqrt h\, Z_2, \\
       \theta'_{k + 1} &= \theta'_k - h \nabla \tilde U(\theta'_k) + \sqrt h\, (Z_1 + Z_2)

    with theta the fine chain and theta' the coarse one. `Extrapolated` combines both into estimates
    with a bias of O(h^2); theta alone is SGLD at h / 2. A step costs three gradients.

    Attributes
    ----------
    step_size
        h of the coarse chain, a number or a function of the step index.

    References
    ----------
    Durmus et al., NIPS 2016, eqs. 4 to 8 with Sigma = I, and the gradient of eq. 5 at theta_k.

    Examples
    --------
    >>> from alphamf.inference.chain import run
    >>> from alphamf.inference.records import Extrapolated
    >>> from alphamf.inference.targets.gaussian import LinearGaussian
    >>> target = LinearGaussian(np.eye(2), np.zeros(2), 1.0)  # its posterior is N(0, I/2)
    >>> record = Extrapolated(lambda theta, target: theta**2, burn_in=20)
    >>> for _ in run(target, SGRRLD(0.1), steps=200, seed=0, chains=(2000,), record=record):
    ...     pass
    >>> record.mean.round(2)
    array([0.5, 0.5])
    """

    needs: ClassVar[tuple[Need, ...]] = ("bounded gradient", "no latents")

    step_size: Schedule = 1e-3

    def init(self, rng: Any, theta: Array) -> SGRRLDState:
        return SGRRLDState(theta, 0, theta, theta, 0.0)

    def step(self, rng: Any, state: SGRRLDState, target: Target[Potential]) -> SGRRLDState:
        refuse_latents(self, target)
        theta, step, _, coarse, _ = state
        h = step_size_at(self.step_size, step)
        first, second, both = draw_increments(rng, theta)
        middle = move_by(rng, theta, target, h / 2, first)
        theta = move_by(rng, middle, target, h / 2, second)
        coarse = move_by(rng, coarse, target, h, both)
        return SGRRLDState(theta, step + 1, middle, coarse, h)


class SGRRHMCState(NamedTuple):
    """Both chains as in `SGRRLDState`, and their momenta, which have theta's shape."""

    theta: Array
    step: int
    middle: Array
    coarse: Array
    momentum: Array
    coarse_momentum: Array
    size: float


@dataclass(frozen=True)
class SGRRHMC:
    r"""Richardson-Romberg extrapolation of SGHMC: both chains with momenta p of unit mass.

    A chain of step h makes

    .. math:: p' = p - h \nabla \tilde U(\theta) - h A p + \sqrt{2 A h}\, Z, \qquad
       \theta' = \theta + h p',

    and the fine chain makes two such moves at h / 2, with the noise of `SGRRLD`. The bias from
    minibatch noise, O(h), cancels; that of theta's law with full gradients is O(h^2) already. A
    step costs three gradients.

    Attributes
    ----------
    step_size
        As in `SGRRLD`.
    friction
        A, per unit of time.

    References
    ----------
    Durmus et al., NIPS 2016, section 5.1; Chen, Fox & Guestrin, ICML 2014, eq. 13.

    Examples
    --------
    >>> SGRRHMC(0.1).needs  # run as in the example of `SGRRLD`
    ('bounded gradient', 'no latents')
    """

    needs: ClassVar[tuple[Need, ...]] = ("bounded gradient", "no latents")

    step_size: Schedule = 0.03
    friction: float = 1.0

    def __post_init__(self) -> None:
        check_ranges(self, friction=FINITE)

    def init(self, rng: Any, theta: Array) -> SGRRHMCState:
        momentum = noise(rng, theta)
        return SGRRHMCState(theta, 0, theta, theta, momentum, momentum, 0.0)

    def step(self, rng: Any, state: SGRRHMCState, target: Target[Potential]) -> SGRRHMCState:
        refuse_latents(self, target)
        theta, step, _, coarse, momentum, coarse_momentum, _ = state
        h = step_size_at(self.step_size, step)
        first, second, both = draw_increments(rng, theta)
        middle, momentum = self._leap(rng, theta, momentum, target, h / 2, first)
        theta, momentum = self._leap(rng, middle, momentum, target, h / 2, second)
        coarse, coarse_momentum = self._leap(rng, coarse, coarse_momentum, target, h, both)
        return SGRRHMCState(theta, step + 1, middle, coarse, momentum, coarse_momentum, h)

    def _leap(
        self, rng: Any, theta: Array, momentum: Array, target: Target[Potential], h: float, z: Array
    ) -> tuple[Array, Array]:
        new = draw_gradient(target, rng, theta)[1] * -h
        new += (1 - h * self.friction) * momentum
        new += sqrt(2 * self.friction * h) * z
        position = theta + h * new
        return reflect(position, target, new), new


def refuse_latents(sampler: Any, target: Target[Any]) -> None:
    """Raise an AlphaMFError if the target has latents, because two chains cannot share them."""
    if target.latents:
        raise AlphaMFError(
            f"{type(sampler).__name__} needs a target without latents, because its two "
            f"chains cannot share them; this one has {', '.join(target.latents)}"
        )


def draw_increments(rng: Any, theta: Array) -> tuple[Array, Array, Array]:
    """Draw two standard normals for the fine chain; return both, and their sum / sqrt 2."""
    first, second = noise(rng, theta), noise(rng, theta)
    both = first + second
    both *= sqrt(0.5)
    return first, second, both


def move_by(
    rng: Any,
    theta: Array,
    target: Target[Potential],
    h: float,
    z: Array | None = None,
    temperature: float = 1.0,
) -> Array:
    """Return theta after an SGLD step of size h at a temperature; `z`: N(0, I), drawn if None."""
    new = draw_gradient(target, rng, theta)[1] * -h
    new += theta
    new += sqrt(2 * h * temperature) * (noise(rng, theta) if z is None else z)
    return reflect(new, target)


MOST = 8
"""Largest number of levels R of `SGRRMLD`; the smallest step size is then h / 128."""


class SGRRMLDState(NamedTuple):
    """The chains of all levels after a number of steps."""

    theta: Array  # The chain of step h, shape (*chains, D)
    step: int  # Number of steps made
    # middle, fine, coarse: the pairs of levels 2 to R, shape (R - 1, *chains, D): positions of the
    # fine chain after its first and second move, and of the coarse chain after its only one.
    middle: Array
    fine: Array
    coarse: Array
    size: float  # h of the step that led here

    @property
    def terms(self) -> tuple[tuple[float, Array], ...]:
        """Pairs of weight and position that make up the estimate of `records.Extrapolated`."""
        found: list[tuple[float, Array]] = [(1.0, self.theta)]
        for level, total in enumerate(totals(len(self.fine) + 1)[1:]):
            found += [(total / 2, self.middle[level]), (total / 2, self.fine[level])]
            found.append((-total, self.coarse[level]))
        return tuple(found)


@dataclass(frozen=True)
class SGRRMLD:
    r"""Stochastic gradient multilevel Richardson-Romberg Langevin dynamics.

    Level 1 is SGLD at h. Level r is a pair of SGLD chains at h / n_(r - 1), n_r = 2^(r - 1), and at
    half of that, which share their noise as in `SGRRLD`; levels are independent. A step costs
    3 R - 2 gradients. With pi_h(f) the mean of f over SGLD's law at h, `Extrapolated` estimates

    .. math:: \pi_h(f) + \sum_{r=2}^R W_r\, [\pi_{h / n_r}(f) - \pi_{h / n_{r-1}}(f)]
       = \pi(f) + O(h^R), \qquad W_r = \sum_{q \ge r} \prod_{s \ne q} \frac{n_q}{n_q - n_s};

    theta alone is SGLD at h. The finest level needs 2^(R - 2) times the burn-in of the first one.

    Attributes
    ----------
    step_size
        h, a number or a function of the step index.
    levels
        R, from 2 to 8.

    References
    ----------
    Pages & Panloup, Annals of Applied Probability 28 (2018); Lemaire & Pages, Bernoulli 23 (2017),
    for the weights.

    Examples
    --------
    >>> SGRRMLD(0.2, levels=3).needs  # run as in the example of `SGRRLD`
    ('bounded gradient', 'no latents')
    """

    needs: ClassVar[tuple[Need, ...]] = ("bounded gradient", "no latents")

    step_size: Schedule = 1e-3
    levels: int = 3

    def __post_init__(self) -> None:
        check_ranges(self, levels=Range(f"must be from 2 to {MOST}", lambda x: 2 <= x <= MOST))

    def init(self, rng: Any, theta: Array) -> SGRRMLDState:
        pairs = namespace(theta).stack([theta] * (self.levels - 1))
        return SGRRMLDState(theta, 0, pairs, pairs, pairs, 0.0)

    def step(self, rng: Any, state: SGRRMLDState, target: Target[Potential]) -> SGRRMLDState:
        refuse_latents(self, target)
        xp = namespace(state.theta)
        h = step_size_at(self.step_size, state.step)
        theta = move_by(rng, state.theta, target, h, noise(rng, state.theta))
        middles, fines, coarses = [], [], []
        for level in range(self.levels - 1):
            size = h / 2**level
            first, second, both = draw_increments(rng, theta)
            middles.append(move_by(rng, state.fine[level], target, size / 2, first))
            fines.append(move_by(rng, middles[-1], target, size / 2, second))
            coarses.append(move_by(rng, state.coarse[level], target, size, both))
        middle, fine, coarse = (xp.stack(each) for each in (middles, fines, coarses))
        return SGRRMLDState(theta, state.step + 1, middle, fine, coarse, h)


def weights(levels: int) -> tuple[float, ...]:
    """Return the products over s in W_r of `SGRRMLD`, for q = 1 to R, where R is `levels`."""
    sizes = [2**r for r in range(levels)]
    return tuple(prod(n / (n - m) for m in sizes if m != n) for n in sizes)


def totals(levels: int) -> tuple[float, ...]:
    """Return W_r of `SGRRMLD` for r = 1 to R, where R is `levels`; W_1 is 1."""
    each = weights(levels)
    return tuple(sum(each[r:]) for r in range(levels))
