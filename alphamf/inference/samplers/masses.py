"""Mass matrices of the momentum samplers: unit, constant, or adapted by Monte Carlo EM."""

from dataclasses import dataclass
from math import inf
from statistics import NormalDist
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.inference.metric import Dense, Diagonal, Metric
from alphamf.inference.ranges import NOT_NEGATIVE, POSITIVE, Range, at_least, check_ranges
from alphamf.tools.arguments import one_of
from alphamf.tools.arrays import Array, dot, namespace


class Mass(Protocol):
    """A mass matrix M, possibly adaptive, whose state is part of the sampler's state."""

    def init(self, theta: Array) -> Any: ...

    def inverse(self, state: Any) -> Metric:
        """Return M^-1, with `apply` for velocities and `inverse_root` for draws from N(0, M)."""
        ...

    def update(self, rng: Any, state: Any, theta: Array, momentum: Array) -> Any:
        """Return the state after a step that ended at theta and momentum, shape (*chains, D)."""
        ...


class InverseMassState(NamedTuple):
    """State of a constant mass: M^-1, shape (), (D,) or (D, D), of theta's dtype and device."""

    inverse: Array


@dataclass(frozen=True)
class UnitMass:
    """The mass M = I, whose state is the number 1, which broadcasts to the diagonal."""

    def init(self, theta: Array) -> InverseMassState:
        return InverseMassState(namespace(theta).ones((), theta.dtype))

    def inverse(self, state: InverseMassState) -> Metric:
        return Diagonal(state.inverse)

    def update(self, rng: Any, state: Any, theta: Array, momentum: Array) -> Any:
        return state


@dataclass(frozen=True, eq=False)
class ConstantMass:
    """A mass matrix M that does not change.

    Attributes
    ----------
    inverse_mass
        M^-1: its diagonal, shape (D,), or a symmetric positive definite matrix, shape (D, D).

    Examples
    --------
    >>> mass = ConstantMass(np.array([1.0, 4.0]))
    >>> mass.inverse(mass.init(np.zeros(2))).apply(np.ones(2))  # a velocity
    array([1., 4.])
    """

    inverse_mass: Array

    def init(self, theta: Array) -> InverseMassState:
        xp = namespace(theta)
        return InverseMassState(xp.asarray(self.inverse_mass, theta.dtype))

    def inverse(self, state: InverseMassState) -> Metric:
        dense = state.inverse.ndim == 2
        return Dense(state.inverse) if dense else Diagonal(state.inverse)

    def update(self, rng: Any, state: Any, theta: Array, momentum: Array) -> Any:
        return state


class ForceTerms(NamedTuple):
    """Sums, over the subsamples, for the test "sgnht" of `MassEM`; of size 0 for the other test."""

    # damped, outer: sums of xi p, shape (*chains, D), and of p p', of the shape of
    # `MassEMState.inverse`.
    damped: Array
    outer: Array
    force: Array  # Sum of grad U + xi M^-1 p, shape (*chains, D)
    force_square: Array  # Sum of the squares of grad U + xi M^-1 p, shape (*chains, D)
    energy_square: Array  # Sum of the squares of p'M^-1 p, shape (*chains, 1)


class MassEMState(NamedTuple):
    """An adaptive mass per chain; all counters but `steps` have the shape (*chains, 1)."""

    steps: int  # Number of updates so far, at most `freeze`
    inverse: Array  # M^-1, shape (*chains, D) or (*chains, D, D)
    # mean, scatter: mean of the E step's positions, shape (*chains, D), or 0 for momenta, and the
    # sum of squared deviations from it, of the shape of `inverse`. Momenta p are used as velocities
    # M^-1 p.
    mean: Array
    scatter: Array
    # samples, goal: number of samples in this E step so far, and at its end: S_count.
    samples: Array
    goal: Array
    rounds: Array  # k, the number of M steps made
    # offset, taken: position of the next subsample in the E step, and number of subsamples so far.
    offset: Array
    taken: Array
    # momentum, square: sum of the subsampled momenta, and of their squared velocities, shape
    # (*chains, D).
    momentum: Array
    square: Array
    terms: ForceTerms  # Sums for the test "sgnht"


@dataclass(frozen=True)
class MassEM:
    r"""A mass matrix adapted by Monte Carlo EM: from momenta, as in the paper, or from positions.

    An E step is S_count steps of the sampler; the k-th one is followed by the M step

    .. math:: M^{-1} \leftarrow (1 - \kappa_k) M^{-1} + \kappa_k \hat M^{-1}, \qquad
       \kappa_k = k^{-\mathit{decay}},

    where :math:`\hat M` is the covariance of the momenta at the ends of these steps, or
    :math:`\hat M^{-1}` that of the positions. D more samples (1 with a diagonal mass) that agree
    with the present mass are added, which keeps the estimate positive definite.

    S_count becomes S_count (1 + 1 / S_I), rounded up, if an M step changes less than Monte Carlo
    error does: if the mean of q = M^-1 p over S subsamples stays within m +- z sqrt(v / S), with m
    and v the mean and variance of q under the old mass and z from `confidence`. Subsample s lies at
    :math:`\sum_{i \le s} (1 + \mathrm{Poisson}(\nu i^d))`.

    Momenta in equilibrium have covariance M whatever M is, so the mean of :math:`\hat M^{-1}` is
    c M^-1, with a number c that does not depend on the target: about 1 + D / S_count, at most 5/4
    (1 + 2 / S_count with a diagonal mass). No law is left invariant while the mass adapts: freeze
    it after the burn-in. SGHMC by Euler's scheme and SGNHT need h C M^-1 below 2 everywhere. An
    update costs O(D), or O(D^2) with a dense mass and O(D^3) in an M step.

    Attributes
    ----------
    samples
        S_count at the start.
    growth
        S_I; infinity for a fixed S_count.
    decay
        Exponent of kappa, above 0.5 and at most 1 (Robbins and Monro's conditions).
    dense
        Whether M is dense instead of diagonal.
    source
        "momenta" or "positions".
    confidence
        Level of the interval m +- z sqrt(v / S), between 0 and 1.
    nu, d
        Parameters of the distances between subsamples.
    freeze
        Number of steps after which the mass is fixed; None for never.
    test
        q: "velocity" for M^-1 p; "sgnht" for SGNHT-EM's (M^-1 p, grad U + xi M^-1 p, p'M^-1 p).
        "sgnht" needs `SGNHT`. For HMC-EM's (M^-1 p, grad U) use "velocity": M steps keep grad U.

    References
    ----------
    Roychowdhury & Parthasarathy (2017), section 3 and eq. 5, which prints z v for the half width.

    Examples
    --------
    >>> from alphamf.inference.samplers.hmc import HMC
    >>> HMC(0.3, mass=MassEM(samples=50, source="positions", freeze=500)).mass.source
    'positions'
    """

    samples: int = 300
    growth: float = 10.0
    decay: float = 0.75
    dense: bool = False
    source: Literal["momenta", "positions"] = "momenta"
    confidence: float = 0.95
    nu: float = 1.0
    d: float = 0.5
    freeze: int | None = None
    test: Literal["velocity", "sgnht"] = "velocity"

    def __post_init__(self) -> None:
        poisson = Range("must be from 0 to below infinity", lambda x: 0 <= x < inf)
        check_ranges(
            self,
            samples=at_least(1),
            growth=POSITIVE,
            decay=Range("must be above 0.5 and at most 1", lambda x: 0.5 < x <= 1),
            confidence=Range("must lie between 0 and 1", lambda x: 0 < x < 1),
            nu=poisson,
            d=poisson,
            freeze=NOT_NEGATIVE,
        )
        one_of("source", self.source, ("momenta", "positions"))
        one_of("test", self.test, ("velocity", "sgnht"))

    def init(self, theta: Array) -> MassEMState:
        xp = namespace(theta)
        zeros, none = xp.zeros_like(theta), xp.zeros((*theta.shape[:-1], 1), int)
        inverse, scatter = zeros + 1, zeros
        if self.dense:
            scatter = _outer(zeros)
            inverse = scatter + xp.eye(theta.shape[-1], dtype=theta.dtype)
        goal = none + self.samples
        nothing = zeros[..., :0]
        terms = ForceTerms(*[nothing] * 5)
        if self.test == "sgnht":
            outer = _outer(zeros) if self.dense else zeros
            terms = ForceTerms(zeros, outer, zeros, zeros, zeros[..., :1])
        return MassEMState(
            0, inverse, zeros, scatter, none, goal, none, none, none, zeros, zeros, terms
        )

    def inverse(self, state: MassEMState) -> Metric:
        return self._metric(state.inverse)

    def update(
        self,
        rng: Any,
        state: MassEMState,
        theta: Array,
        momentum: Array,
        force: tuple[Array, Array] | None = None,
    ) -> MassEMState:
        """Return the state after a step, with an M step in chains that have enough samples.

        `force`: gradient of U, shape (*chains, D), and friction xi, shape (*chains, 1), of SGNHT's
        last leap; needed for the test "sgnht".
        """
        if self.freeze is not None and state.steps >= self.freeze:
            return state
        xp = namespace(theta)
        velocity = self.inverse(state).apply(momentum)
        samples, offset = state.samples + 1, state.offset
        fresh = state.samples == offset
        # On a GPU a test would wait: there all is computed, and `where` ignores what is not due.
        if xp is not np or fresh.any():
            gap = 1 + rng.poisson(self.nu * (state.taken + 1.0) ** self.d)
            offset = xp.where(fresh, state.samples + gap, offset)
        due = samples == offset
        sample, mean = velocity, state.mean
        if self.source == "positions":
            weight = 1 / samples.astype(theta.dtype)
            sample = theta - mean
            mean = mean + weight * sample
            sample *= xp.sqrt(1 - weight)
        state = state._replace(
            steps=state.steps + 1,
            mean=mean,
            scatter=state.scatter + (_outer(sample) if self.dense else sample * sample),
            samples=samples,
            offset=offset,
            taken=state.taken + due,
            momentum=state.momentum + xp.where(due, momentum, 0),
            square=state.square + xp.where(due, velocity * velocity, 0),
        )
        if self.test == "sgnht":
            if force is None:
                raise AlphaMFError("test 'sgnht' needs SGNHT, which alone has a friction xi")
            state = state._replace(
                terms=self._add_force(state.terms, due, momentum, velocity, force)
            )
        ready = samples >= state.goal
        return self._maximise(state, ready) if xp is not np or ready.any() else state

    def _add_force(
        self, terms: ForceTerms, due: Array, p: Array, velocity: Array, force: tuple[Array, Array]
    ) -> ForceTerms:
        """Return the sums with the present values added in chains where a subsample is due."""
        gradient, xi = force
        xp, total = namespace(p), gradient + xi * velocity
        outer = _outer(p) if self.dense else p * p
        energy = dot(p, velocity)
        added = (xi * p, outer, total, total * total, energy * energy)
        return ForceTerms(
            *(
                old + xp.where(due[..., None] if each.ndim > p.ndim else due, each, 0)
                for old, each in zip(terms, added, strict=True)
            )
        )

    def _force_inside(self, terms: ForceTerms, taken: Array, old: Array, new: Array) -> Array:
        """Return in which chains the terms that "sgnht" adds stay within their intervals."""
        xp, z = namespace(taken), NormalDist().inv_cdf(0.5 + self.confidence / 2)

        def energy(inverse: Array) -> Array:
            product = inverse * terms.outer  # tr(M^-1 sum p p')
            return product.sum((-2, -1) if self.dense else -1)[..., None] / taken

        damped, force = terms.damped / taken, terms.force / taken
        moved = self._metric(new).apply(damped) - self._metric(old).apply(damped)
        spread = xp.maximum(terms.force_square / taken - force * force, 0)
        inside: Array = (xp.abs(moved) < z * xp.sqrt(spread / taken)).all(-1, keepdims=True)
        before = energy(old)
        spread = xp.maximum(terms.energy_square / taken - before * before, 0)
        inside = inside & (xp.abs(energy(new) - before) < z * xp.sqrt(spread / taken))
        return inside

    def _metric(self, inverse: Array) -> Metric:
        return Dense(inverse) if self.dense else Diagonal(inverse)

    def _maximise(self, state: MassEMState, ready: Array) -> MassEMState:
        """Return the state after an M step in chains that are ready, whose next E step starts."""
        xp, dtype = namespace(state.inverse), state.inverse.dtype
        each = ready[..., None] if self.dense else ready
        kappa = (state.rounds + 1).astype(dtype) ** -self.decay
        change = self._estimate(state) - state.inverse
        change *= kappa[..., None] if self.dense else kappa
        inverse = xp.where(each, state.inverse + change, state.inverse)
        taken = xp.maximum(state.taken, 1).astype(dtype)
        mean = state.momentum / taken
        before, after = (self._metric(m).apply(mean) for m in (state.inverse, inverse))
        variance = xp.maximum(state.square / taken - before * before, 0)
        width = NormalDist().inv_cdf(0.5 + self.confidence / 2) * xp.sqrt(variance / taken)
        inside = (xp.abs(after - before) < width).all(-1, keepdims=True)
        terms = state.terms
        if self.test == "sgnht":
            inside = inside & self._force_inside(terms, taken, state.inverse, inverse)
            terms = ForceTerms(
                *(xp.where(ready[..., None] if t.ndim > ready.ndim else ready, 0, t) for t in terms)
            )
        more = xp.ceil(state.goal / self.growth).astype(int)
        sums = ("mean", "samples", "offset", "taken", "momentum", "square")
        return state._replace(
            inverse=inverse,
            scatter=xp.where(each, 0, state.scatter),
            goal=state.goal + xp.where(ready & inside, more, 0),
            rounds=state.rounds + ready,
            terms=terms,
            **{name: xp.where(ready, 0, getattr(state, name)) for name in sums},
        )

    def _estimate(self, state: MassEMState) -> Array:
        """Return the estimate of M^-1 from the E step's samples."""
        xp, inverse = namespace(state.inverse), state.inverse
        prior = inverse.shape[-1] if self.dense else 1
        weight: Array = state.samples.astype(inverse.dtype) + prior
        total: Array = state.scatter + prior * inverse
        if not self.dense:
            if self.source == "positions":
                return total / weight
            return weight * inverse * inverse / total
        weight = weight[..., None]
        if self.source == "positions":
            return total / weight
        # With scatter = M^-1 (sum of p p') M^-1 one solve gives the inverse of the covariance.
        estimate = xp.matmul(inverse, xp.linalg.solve(total, inverse))
        symmetric: Array = estimate + xp.swapaxes(estimate, -1, -2)
        return 0.5 * weight * symmetric


def _outer(x: Array) -> Array:
    return x[..., :, None] * x[..., None, :]
