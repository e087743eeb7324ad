"""Draw a potential together with the gradient that a sampler needs of it first.

Most samplers draw a potential and ask for its gradient at once, where it was drawn. A target may
have methods of these names, which do both in one pass over its data; of any other target the
functions take ``draw`` and then ``grad`` or ``parts``.
"""

from __future__ import annotations

from typing import Any

from alphamf.errors import AlphaMFError
from alphamf.inference.protocols import FactorPotential, P, Parts, Target
from alphamf.tools.arrays import Array


def draw_gradient(target: Target[P], rng: Any, theta: Array) -> tuple[P, Array]:
    """Draw a potential, and evaluate its gradient at theta.

    Parameters
    ----------
    target
        Posterior to draw from; its own method ``draw_gradient`` is used if it has one.
    rng
        Generator of theta's array module.
    theta
        Position, shape (*chains, D).

    Returns
    -------
    potential : Potential
    gradient : ndarray
        Shape of theta; it belongs to the caller.

    Examples
    --------
    >>> import numpy as np
    >>> from alphamf.inference.targets.gaussian import LinearGaussian
    >>> target = LinearGaussian(np.eye(2), np.ones(2), 1.0)
    >>> potential, gradient = draw_gradient(target, None, np.zeros(2))
    >>> np.array_equal(gradient, potential.grad(np.zeros(2)))
    True
    """
    own = getattr(target, "draw_gradient", None)
    if own is not None:
        drawn: tuple[P, Array] = own(rng, theta)
        return drawn
    potential = target.draw(rng, theta)
    return potential, potential.grad(theta)


def draw_parts(
    target: Target[FactorPotential], rng: Any, theta: Array
) -> tuple[FactorPotential, Parts]:
    """Draw a potential, and evaluate the two positive parts of its gradient at theta.

    Parameters
    ----------
    target
        Posterior to draw from; its own method ``draw_parts`` is used if it has one.
    rng
        Generator of theta's array module.
    theta
        Position, shape (*chains, D).

    Returns
    -------
    potential : FactorPotential
    parts : Parts
        Its arrays `plus` and `minus` belong to the caller.

    Raises
    ------
    AlphaMFError
        The potential has no parts.

    Examples
    --------
    >>> import numpy as np
    >>> class Gamma:
    ...     # U = theta - 2 log theta: target and potential in one.
    ...     def draw(self, rng, theta):
    ...         return self
    ...     def parts(self, theta):
    ...         return Parts(np.ones_like(theta), np.zeros_like(theta), np.full(1, 3.0), np.ones(1))
    >>> draw_parts(Gamma(), None, np.full(1, 0.5))[1].plus
    array([1.])
    """
    own = getattr(target, "draw_parts", None)
    if own is not None:
        drawn: tuple[FactorPotential, Parts] = own(rng, theta)
        return drawn
    potential = target.draw(rng, theta)
    return potential, parts_of(potential, theta)


def parts_of(potential: Any, theta: Array) -> Parts:
    """Return the gradient's positive parts."""
    if not hasattr(potential, "parts"):
        raise AlphaMFError(
            "a sampler of positive factors needs a target whose potential has parts(theta), "
            f"which {type(potential).__name__} does not have"
        )
    parts: Parts = potential.parts(theta)
    return parts
