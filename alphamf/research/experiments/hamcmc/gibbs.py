r"""A Gibbs sampler for alpha-MF: an expensive baseline for the stochastic gradient samplers.

Every component k of a source with index alpha has a stable variable of its own in every cell,

.. math:: X_{ij} = \sum_k s_{ijk}, \qquad
   s_{ijk} \mid \Phi_{ijk} \sim \mathcal{N}_c(0, v_{ijk}), \qquad
   v_{ijk} = \Phi_{ijk} (W_{ik} H_{kj})^{2/\alpha},

which gives X the law of `alphamf.factorization.alpha_mf`, since dispersions of stable variables add
up. A sweep draws, in this order,

- with `collapsed`, Phi given X, with s integrated out: component after component, a Metropolis
  move with the prior as proposal, under the variance of the whole cell;
- s given X: a Gaussian, by drawing :math:`\tilde s` without regard to X and then adding
  :math:`v_k / \sigma^2 (X - \sum_l \tilde s_l)`, where :math:`\sigma^2` is the cell's variance;
- without `collapsed`, Phi given s: a Metropolis move with the prior as proposal;
- :math:`y = H_{kj}^{2/\alpha}` given s and Phi: inverse-Gamma of shape I and scale
  :math:`\sum_i |s_{ijk}|^2 / (\Phi_{ijk} W_{ik}^{2/\alpha})`, and W the same way, where it is free.
  A prior GG(a, b, -2/alpha) is conjugate: it adds a to the shape and :math:`b^{2/\alpha}` to the
  scale. Under any other prior p, the draw is a proposal x' that is accepted with probability
  :math:`\min(1, p(x') x' / (p(x) x))`.

A sweep needs the time and memory of I x J x K numbers, a gradient those of I x J numbers and of a
product of matrices.

References
----------
Simsekli, Liutkus, Cemgil, "Alpha-stable matrix factorization", IEEE SPL 22 (2015), for the law of
the augmentation. Simsekli et al. (ICML 2016, section 4.2) call its sampler partially collapsed;
`collapsed` is our reading of that name: Phi, moved just before s is drawn, is moved without s.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from alphamf.factorization import cells
from alphamf.factorization.alpha_mf import FLOOR, AlphaMFTarget, Source
from alphamf.factorization.cells import TINY, CellOutput, Cells
from alphamf.factorization.priors import GeneralizedGamma, Prior
from alphamf.factorization.stable import positive_stable
from alphamf.inference.protocols import Need, Potential, Schedule, Target
from alphamf.inference.random import noise
from alphamf.inference.samplers.langevin import SGLD, SGLDState
from alphamf.inference.schedule import Held
from alphamf.tools.arrays import Array, namespace


class Gibbs:
    """A chain of Gibbs sweeps over the sources s, Phi, W and H.

    `theta`: starting position, shape (D,). `phi`: one array of shape (K, I, J) per source.
    `collapsed`: whether Phi moves with s integrated out.
    """

    def __init__(
        self, target: AlphaMFTarget, rng: Any, theta: Array, *, collapsed: bool = False
    ) -> None:
        self.target: AlphaMFTarget = target
        self.collapsed = collapsed
        self.theta: Array = theta.copy()
        self.amplitude: Array = np.sqrt(target.power)
        self.phi: list[Array] = [
            positive_stable(
                rng, source.alpha, np.empty((source.rank, *target.power.shape), theta.dtype)
            )
            for source in target.sources
        ]

    def _variances(self) -> list[Array]:
        """Return (W_ik H_kj)^(2/alpha), the variances without Phi: shape (K, I, J) per source."""
        found = []
        for source, (w, h) in zip(self.target.sources, self._factors(), strict=True):
            power = 2 / source.alpha
            found.append((w.T**power)[:, :, None] * (h**power)[:, None, :])
        return found

    def _factors(self) -> list[tuple[Array, Array]]:
        factors = self.target.unpack(self.theta)
        return [(np.maximum(w, TINY), np.maximum(h, TINY)) for w, h in factors]

    def gain(self, source: int = 0) -> Array:
        """Return a source's fraction of the variance of each cell given all but s, shape (I, J)."""
        parts = [
            np.einsum("kij,kij->ij", phi, c)
            for phi, c in zip(self.phi, self._variances(), strict=True)
        ]
        return parts[source] / (sum(parts) + FLOOR)

    def sweep(self, rng: Any) -> None:
        """Draw the sources s, Phi and the free factors once; `phi` and `theta` change in place."""
        bare = self._variances()
        if self.collapsed:
            self._move_phi_given_x(rng, bare)
        powers = self._draw_sources(rng, bare)
        for s, source in enumerate(self.target.sources):
            # |s|^2 / (W H)^(2/alpha), below also divided by Phi: exponential at stationarity.
            scaled = powers[s]
            scaled /= bare[s]
            if source.alpha < 2 and not self.collapsed:
                for phi, part in zip(self.phi[s], scaled, strict=True):
                    _move_phi(rng, source.alpha, phi, part)
            scaled /= self.phi[s]
            self._move_factors(rng, s, source, scaled)

    def _move_phi_given_x(self, rng: Any, bare: list[Array]) -> None:
        """Move Phi of each component with alpha < 2 by a Metropolis step with s integrated out."""
        power = self.amplitude * self.amplitude
        pairs = zip(self.phi, bare, strict=True)
        sigma2 = FLOOR + sum(np.einsum("kij,kij->ij", phi, c) for phi, c in pairs)
        for source, phis, c in zip(self.target.sources, self.phi, bare, strict=True):
            if source.alpha == 2:
                continue
            for phi, part in zip(phis, c, strict=True):
                proposed = positive_stable(rng, source.alpha, np.empty_like(phi))
                # The other components' variance is not negative, but rounding may make it so.
                rest = np.maximum(sigma2 - phi * part, FLOOR)
                other = rest + proposed * part
                rise = np.log(other / sigma2) + power / other - power / sigma2
                accepted = rng.standard_exponential(phi.shape, dtype=phi.dtype) > rise
                np.copyto(phi, proposed, where=accepted)
                np.copyto(sigma2, other, where=accepted)

    def _draw_sources(self, rng: Any, bare: list[Array]) -> list[Array]:
        """Draw all s given X, and return their |s|^2, shape (K, I, J) per source."""
        shape = self.amplitude.shape
        like = np.empty(shape, self.theta.dtype)
        sigma2 = np.full(shape, FLOOR, self.theta.dtype)
        # The law does not depend on the phase of X, so that its modulus can be used.
        rest = [self.amplitude - np.sqrt(FLOOR / 2) * noise(rng, like)]
        rest.append(-np.sqrt(FLOOR / 2) * noise(rng, like))
        free: list[list[Array]] = []
        for phi, c in zip(self.phi, bare, strict=True):
            v = phi * c
            root = np.sqrt(0.5 * v)
            free.append([noise(rng, root), noise(rng, root)])
            for part, total in zip(free[-1], rest, strict=True):
                part *= root
                total -= part.sum(0)
            sigma2 += v.sum(0)
        powers = []
        rest = [total / sigma2 for total in rest]
        for phi, c, parts in zip(self.phi, bare, free, strict=True):
            v = phi * c
            for part, total in zip(parts, rest, strict=True):
                part += v * total
                part *= part
            parts[0] += parts[1]
            powers.append(parts[0])
        return powers

    def _move_factors(self, rng: Any, s: int, source: Source, scaled: Array) -> None:
        """Move H and, if free, W, given |s|^2 / v (K, I, J) as `scaled`, which may be changed."""
        w, h = self._factors()[s]
        power = 2 / source.alpha
        views = self.target.unpack(self.theta)[s]
        new = _draw_factor(rng, source.prior_gains, source.alpha, h, scaled.sum(1), w.shape[0])
        views[1][...] = new
        if source.basis is None:
            scaled *= (h / new)[:, None, :] ** power
            views[0][...] = _draw_factor(
                rng, source.prior_basis, source.alpha, w, scaled.sum(2).T, h.shape[1]
            )


def _move_phi(rng: Any, alpha: float, phi: Array, power: Array) -> None:
    """Move Phi of one component in place, given `power`, its |s|^2 / (W H)^(2/alpha)."""
    cells.evaluate(
        CellOutput.MOVE,
        power,
        [Cells(alpha, np.ones_like(phi), phi)],
        states=cells.states(rng, [alpha]),
    )


def _draw_factor(
    rng: Any, prior: Prior, alpha: float, old: Array, total: Array, count: int
) -> Array:
    """Draw factors given `total`, the sum of |s|^2 / v over `count` cells at their values `old`."""
    power = 2 / alpha
    y = old**power
    if isinstance(prior, GeneralizedGamma) and np.isclose(prior.c, -power):
        y = (y * total + prior.b**power) / rng.standard_gamma(count + prior.a, y.shape)
        return (y ** (1 / power)).astype(old.dtype)
    y = y * total / rng.standard_gamma(count, y.shape)
    new = np.maximum(y ** (1 / power), TINY).astype(old.dtype)
    rise = prior.potential(new) - np.log(new) - prior.potential(old) + np.log(old)
    return np.where(rng.standard_exponential(old.shape) > rise, new, old)


class InterleavedState(NamedTuple):
    """Newest sample, number of steps, and the chains' positions, shape (M, *chains, D)."""

    theta: Array
    step: int
    past: Array


@dataclass(frozen=True)
class Interleaved:
    r"""M chains of SGLD that take turns: HAMCMC with the inverse Hessian H = I throughout.

    .. math:: \theta_t = \theta_{t-M} - h \nabla \tilde U(\theta_{t-M}) + \mathcal{N}(0, 2 h).

    It shows what curvature adds to HAMCMC: latents are shared and samples averaged as there, but a
    step takes one gradient instead of two.
    """

    needs: ClassVar[tuple[Need, ...]] = ("bounded gradient",)

    step_size: Schedule  # h, a number or function of the step index; like HAMCMC's h gamma
    memory: int = 2  # M, the number of chains

    def init(self, rng: Any, theta: Array) -> InterleavedState:
        """Return the state whose chains all start at theta, of shape (*chains, D)."""
        return InterleavedState(theta, 0, namespace(theta).stack([theta] * self.memory))

    def step(
        self, rng: Any, state: InterleavedState, target: Target[Potential]
    ) -> InterleavedState:
        """Move the chain whose turn it is, with one gradient."""
        _, step, past = state
        place = step % self.memory
        one = SGLD(Held(self.step_size, self.memory))
        past[place], step = one.step(rng, SGLDState(past[place], step), target)
        return InterleavedState(past[place], step, past)
