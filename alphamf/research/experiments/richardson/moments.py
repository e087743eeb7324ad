"""First and second moments of the chains of ``richardson``."""

from __future__ import annotations

from typing import Any

from alphamf.research.experiments.richardson.laws import PRIOR_VARIANCE
from alphamf.tools.arrays import Array


class ErrorMoments:
    """Records the mean of e = theta - mu and of e e' per chain, extrapolated for pairs of chains.

    `covariances`: these estimates, shape (*chains, D, D) each.
    """

    target: Any  # The posterior of phi
    burn_in: int  # Steps that are discarded
    count: int

    def __init__(self, target: Any, burn_in: int, steps: int) -> None:
        self.target, self.burn_in = target, burn_in
        self.steps: list[int] = sorted({(steps - burn_in) >> k for k in range(6)} - {0})
        self.count = 0
        self.first: Any = 0.0
        self.second: Any = 0.0
        self.covariances: list[Array] = []

    def add(self, state: Any, target: Any) -> None:
        """Add a state."""
        if state.step <= self.burn_in:
            return
        self.count += 1
        signed = [(1.0, state.theta)]
        if hasattr(state, "coarse"):
            signed = [(1.0, state.middle), (1.0, state.theta), (-1.0, state.coarse)]
        for sign, phi in signed:
            e = phi - self.target.mean
            self.first = self.first + sign * e
            self.second = self.second + sign * e[..., :, None] * e[..., None, :]
        if self.count in self.steps:
            self.covariances.append(self.covariance())

    def arrays(self) -> dict[str, Array]:
        """Return an empty dict, because no checkpoint is written."""
        return {}

    def load(self, arrays: dict[str, Array]) -> None:
        """Do nothing, because there is no checkpoint."""

    def covariance(self) -> Array:
        """Return theta's covariance around the mean of each chain, shape (*chains, D, D)."""
        mean = self.first / self.count
        own = self.second / self.count - mean[..., :, None] * mean[..., None, :]
        covariance: Array = PRIOR_VARIANCE * own
        return covariance
