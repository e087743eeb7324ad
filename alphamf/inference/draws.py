"""Draw a potential, and compute at once its gradient, which a sampler needs first.

If a target has methods of these names, which do both in one pass over its data, they are called;
otherwise its ``draw`` and then the potential's ``grad`` or ``parts``.
"""

from typing import Any

from alphamf.errors import AlphaMFError
from alphamf.inference.metric import Metric
from alphamf.inference.protocols import FactorPotential, P, Parts, Target
from alphamf.tools.arrays import Array


def draw_gradient(target: Target[P], rng: Any, theta: Array) -> tuple[P, Array]:
    """Draw a potential, and evaluate its gradient at theta: an array that belongs to the caller."""
    own = getattr(target, "draw_gradient", None)
    if own is not None:
        return own(rng, theta)
    potential = target.draw(rng, theta)
    return potential, potential.grad(theta)


def draw_parts(
    target: Target[FactorPotential], rng: Any, theta: Array
) -> tuple[FactorPotential, Parts]:
    """Draw a potential, and its gradient's two positive parts, which belong to the caller."""
    own = getattr(target, "draw_parts", None)
    if own is not None:
        return own(rng, theta)
    potential = target.draw(rng, theta)
    return potential, parts_of(potential, theta)


def parts_of(potential: Any, theta: Array) -> Parts:
    """Return the gradient's positive parts."""
    return ask(potential, "parts", theta, "a sampler of positive factors")


def metric_of(potential: Any, theta: Array) -> Metric:
    """Return the potential's metric at theta."""
    return ask(potential, "metric", theta, "a Riemannian sampler")


def ask(potential: Any, method: str, theta: Array, asker: str) -> Any:
    """Call a method of the potential at theta; raise an AlphaMFError if it has none."""
    if not hasattr(potential, method):
        raise AlphaMFError(
            f"{asker} needs a target whose potential has {method}(theta), "
            f"which {type(potential).__name__} does not have"
        )
    return getattr(potential, method)(theta)
