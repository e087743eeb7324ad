"""The model whose posterior is sampled."""

from __future__ import annotations

from dataclasses import dataclass

from alphamf.errors import AlphaMFError


@dataclass(frozen=True)
class FactorModel:
    r"""Probabilistic matrix factorisation, see `alphamf.inference.targets.bpmf.BPMF`."""

    rank: int  # K
    # variance_w, variance_h, variance_x: sigma_w^2, sigma_h^2 and sigma_x^2.
    variance_w: float = 1.0
    variance_h: float = 1.0
    variance_x: float = 1.0
    offset: float = 0.0  # Constant that is added to each product of W and H
    level: float = 0.0  # Value around which the entries of W and H start

    def __post_init__(self) -> None:
        """Check the hyperparameters."""
        if self.rank < 1:
            raise AlphaMFError(f"rank must be at least 1, not {self.rank}")
        for name in ("variance_w", "variance_h", "variance_x"):
            if not getattr(self, name) > 0:
                raise AlphaMFError(f"{name} must be positive, not {getattr(self, name)}")
