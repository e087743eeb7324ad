"""HAMCMC without pairs: M chains of SGLD that take turns."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any, ClassVar, NamedTuple

from alphamf.inference.draws import draw_gradient
from alphamf.inference.protocols import Need, Potential, Schedule, Target
from alphamf.inference.random import noise
from alphamf.inference.samplers.reflect import reflect
from alphamf.inference.schedule import step_size_at
from alphamf.tools.arrays import Array, namespace


class InterleavedState(NamedTuple):
    """Newest sample, number of steps, and the chains' positions, shape (M, *chains, D)."""

    theta: Array
    step: int
    past: Array


@dataclass(frozen=True)
class Interleaved:
    r"""M chains of SGLD that take turns: HAMCMC with H = I throughout.

    .. math:: \theta_t = \theta_{t-M} - h \nabla \tilde U(\theta_{t-M}) + \mathcal{N}(0, 2 h).

    It shows which part of HAMCMC's result its curvature has: latents are shared and samples
    averaged as there, and a step takes one gradient in the place of two.
    """

    needs: ClassVar[tuple[Need, ...]] = ("bounded gradient",)

    step_size: Schedule  # h, a number or a function of the step index; HAMCMC's times its gamma.
    memory: int = 2  # M

    def init(self, rng: Any, theta: Array) -> InterleavedState:
        """Return the state whose chains all start at theta, of shape (*chains, D)."""
        return InterleavedState(theta, 0, namespace(theta).stack([theta] * self.memory))

    def step(
        self, rng: Any, state: InterleavedState, target: Target[Potential]
    ) -> InterleavedState:
        """Move the chain whose turn it is, with one gradient."""
        _, step, past = state
        h = step_size_at(self.step_size, step - step % self.memory)
        place = step % self.memory
        origin = past[place]
        new = draw_gradient(target, rng, origin)[1] * -h
        new += origin
        kick = noise(rng, origin)
        kick *= sqrt(2 * h)
        new += kick
        reflect(new, target)
        past[place] = new
        return InterleavedState(new, step + 1, past)
