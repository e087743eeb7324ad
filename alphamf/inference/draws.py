"""Draw a potential together with its gradient, which a sampler needs first.

If the target has a method of the function's name, which does both in one pass over its data, it is
called; otherwise, the target's ``draw`` and then the potential's ``grad`` or ``parts`` are.
"""

from typing import Any

from alphamf.errors import AlphaMFError
from alphamf.inference.metric import Metric
from alphamf.inference.protocols import FactorPotential, P, Parts, Target
from alphamf.tools.arrays import Array


def draw_gradient(target: Target[P], rng: Any, theta: Array) -> tuple[P, Array]:
    """Draw a potential; return it and its gradient, which may be theta itself: do not overwrite."""
    own = getattr(target, "draw_gradient", None)
    if own is not None:
        return own(rng, theta)
    potential = target.draw(rng, theta)
    return potential, potential.grad(theta)


def draw_parts(
    target: Target[FactorPotential], rng: Any, theta: Array
) -> tuple[FactorPotential, Parts]:
    """Draw a potential; return it and its gradient's parts; `plus`, `minus` may be overwritten."""
    own = getattr(target, "draw_parts", None)
    if own is not None:
        return own(rng, theta)
    potential = target.draw(rng, theta)
    return potential, parts_of(potential, theta)


def parts_of(potential: Any, theta: Array) -> Parts:
    """Return the gradient in two positive parts; raise an AlphaMFError if `potential` has none."""
    return ask(potential, "parts", theta, "a sampler of positive factors")


def metric_of(potential: Any, theta: Array) -> Metric:
    """Return the potential's metric at theta; raise an AlphaMFError if it has none."""
    return ask(potential, "metric", theta, "a Riemannian sampler")


def ask(potential: Any, method: str, theta: Array, asker: str) -> Any:
    """Call a potential's method at theta; if missing, raise an AlphaMFError that names `asker`."""
    if not hasattr(potential, method):
        raise AlphaMFError(
            f"{asker} needs a target whose potential has {method}(theta), "
            f"which {type(potential).__name__} does not have"
        )
    return getattr(potential, method)(theta)
