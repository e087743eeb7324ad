"""One call from a log density to samples with their diagnostics."""

from collections import Counter
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace
from functools import lru_cache
from math import gcd
from typing import Any, NamedTuple

import numpy as np

from alphamf.errors import AlphaMFError, DivergenceError
from alphamf.inference.chain import check_finite, run
from alphamf.inference.diagnostics import Summary, separate_chains, summarise
from alphamf.inference.leaps import BLOCK
from alphamf.inference.protocols import Sampler, State, Target
from alphamf.inference.records import Trace
from alphamf.inference.samplers.langevin import SGLD
from alphamf.inference.samplers.masses import ConstantMass, UnitMass
from alphamf.inference.schedule import step_size_at
from alphamf.inference.targets.control_variates import ControlVariates
from alphamf.inference.targets.density import Density, DensityTarget
from alphamf.inference.targets.derived_density import JaxDensity
from alphamf.tools.arrays import Array

TRACED = "SGLD PSGLD HAMCMC NaiveQN HMC HMCBFGS SGHMC SGNHT SGNPHMC SGRRLD SGRRHMC SGRRMLD".split()
"""Names of the samplers whose steps JAX can trace, provided that their mass is constant."""


class Samples(NamedTuple):
    """The samples of a run.

    Attributes
    ----------
    draws
        Kept positions, shape (kept, chains, D).
    state
        State after the last step.
    turns
        Number of series that one chain consists of; see `diagnostics.separate_chains`.
    tree
        `draws` as a pytree like theta0, leaves (kept, chains, ...); None if theta0 is an array.

    Examples
    --------
    >>> found = sample(lambda theta: -theta, np.zeros((4, 1)), sampler=SGLD(0.1), steps=5000)
    >>> found.draws.shape, found.summary().std.round(1)
    ((4000, 4, 1), array([1.]))
    """

    draws: Array
    state: State
    turns: int
    tree: Any = None

    def summary(self) -> Summary:
        """Return a `Summary`, arrays of shape (D,); raise an AlphaMFError if draws are too few."""
        return summarise(separate_chains(self.draws, self.turns))


def sample(
    density: Density | Callable[..., Any] | Target[Any],
    theta0: Array,
    *,
    data: Any = None,
    batch: int | None = None,
    prior: Density | Callable[..., Any] | None = None,
    sampler: Sampler[Any] | None = None,
    steps: int = 5000,
    burn_in: int | None = None,
    thin: int = 1,
    seed: int = 0,
) -> Samples:
    """Sample a posterior given by functions of NumPy, JAX or PyTorch.

    If the functions are `JaxDensity`, most samplers run wholly in JAX, with its random numbers. A
    second call with the same `DensityTarget`, sampler, steps and shape of theta0 compiles nothing.

    Parameters
    ----------
    density
        A function of one theta, shape (D,), and of rows of each data array, that returns the
        gradient of the log-likelihood of these rows; without data, that of log p. It may also be a
        `NumPyDensity`, `JaxDensity` or `TorchDensity`, or a `Target`, which has its own data.
    theta0
        Start of the chains, shape (D,) for one, or (chains, D). For `JaxDensity` also a pytree,
        whose leaves have the chains as their first axis; the density gets one chain's pytree.
    data, batch, prior
        As in `DensityTarget`; a gradient of a minibatch is scaled up to all data.
    sampler
        Sampler, such as ``SGLD(step_size=1e-3)``; None: `SGLD` with its default step size.
    steps
        Number of steps, `burn_in` included.
    burn_in
        Number of steps that are dropped first; None: a fifth of all steps.
    thin
        Distance between kept steps.
    seed
        Seed of the random streams.

    Raises
    ------
    AlphaMFError
        An argument is out of range or does not fit the others, the sampler needs more than the
        density offers, or the chain diverged.

    Examples
    --------
    >>> x = 3 + np.random.default_rng(0).standard_normal((1000, 1))
    >>> found = sample(
    ...     lambda theta, x: (x - theta).sum(0),  # of log N(x; theta, 1)
    ...     np.zeros((4, 1)),
    ...     data=x,
    ...     batch=100,
    ...     sampler=SGLD(step_size=1e-4),
    ... )
    >>> found.summary().mean.round(1)
    array([3.])
    """
    unravel = None
    if isinstance(density, JaxDensity) and not hasattr(theta0, "shape"):
        theta0, unravel = _flattened(theta0)
        density = density.of_tree(unravel)
        if prior is not None and not isinstance(prior, JaxDensity):
            raise AlphaMFError("where theta0 is a pytree, prior must be a JaxDensity")
        prior = prior and prior.of_tree(unravel)
    start = _checked_start(theta0)
    if hasattr(density, "draw"):
        if any(each is not None for each in (data, batch, prior)):
            raise AlphaMFError(
                "a target has its own data and prior; give data, batch and prior to it"
            )
        target: Any = density
    else:
        target = DensityTarget(density, start[0], data=data, batch=batch, prior=prior)
    if start.shape[-1] != target.size:
        raise AlphaMFError(
            f"theta0 must have {target.size} columns, as the target has, not {start.shape[-1]}"
        )
    sampler = SGLD() if sampler is None else sampler
    burn_in = steps // 5 if burn_in is None else burn_in
    if burn_in + thin > steps:
        raise AlphaMFError(
            f"no step would be kept: burn_in {burn_in} and thin {thin} leave none of {steps} steps"
        )
    try:
        if _traces(target, sampler):
            draws, state = _run_in_jax(target, sampler, start, steps, seed, burn_in, thin)
        else:
            record = Trace(lambda theta, target: theta, burn_in=burn_in, thin=thin)
            for last in run(target, sampler, steps=steps, seed=seed, start=start, record=record):
                state = last
            draws = record.values
    except DivergenceError as error:
        if any(not np.isfinite(array).all() for array in _numbers(data)):
            raise DivergenceError("data contains NaN or infinite values") from error
        raise
    turns = getattr(sampler, "turns", 1)
    found = Samples(draws, state, turns // gcd(turns, thin))
    if unravel is None:
        return found
    import jax

    tree = jax.tree.map(np.asarray, jax.vmap(jax.vmap(unravel))(draws))
    return found._replace(tree=tree)


def _numbers(data: Any) -> Iterator[Array]:
    """Yield the data arrays as floats; leave out those that NumPy cannot convert."""
    for each in data if isinstance(data, (tuple, list)) else (data,):
        try:
            yield np.asarray(() if each is None else each).astype(float)
        except (TypeError, ValueError, RuntimeError):  # text, or a tensor on a GPU
            continue


def _checked_start(theta0: Array) -> Array:
    """Return a float copy of theta0, (chains, D); raise an error for an unfit shape or value."""
    device = hasattr(theta0, "get") and hasattr(theta0, "device")  # CuPy's arrays stay there
    theta: Array = theta0.copy() if device else np.asarray(theta0).copy()
    if theta.ndim not in (1, 2) or not theta.size:
        raise AlphaMFError(f"theta0 must have shape (D,) or (chains, D), not {theta.shape}")
    if theta.dtype.kind not in "fiu":
        raise AlphaMFError(f"theta0 must be of numbers, not of {theta.dtype}")
    if not np.isfinite(theta).all():
        raise AlphaMFError("theta0 contains NaN or infinite values")
    if theta.dtype.kind != "f":
        theta = theta.astype(np.float64)
    return theta.reshape(-1, theta.shape[-1])


def _flattened(tree: Any) -> tuple[Array, Callable[[Any], Any]]:
    """Return a pytree of chains as an array (chains, D), and the function from theta to pytree."""
    import jax
    from jax.flatten_util import ravel_pytree

    lengths = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(tree)}
    if len(lengths) != 1 or () in lengths:
        raise AlphaMFError("all arrays of theta0 must have the chains as their first axis")
    unravel = ravel_pytree(jax.tree.map(lambda leaf: leaf[0], tree))[1]
    return np.asarray(jax.vmap(lambda one: ravel_pytree(one)[0])(tree)), unravel


def _traces(target: Any, sampler: Any) -> bool:
    """Return whether JAX can trace the sampler's steps on the target."""
    inner = target.target if isinstance(target, ControlVariates) else target
    mass = getattr(sampler, "mass", None)
    return (
        type(inner) is DensityTarget
        and isinstance(inner.density, JaxDensity)
        and (inner.prior is None or isinstance(inner.prior, JaxDensity))
        and type(sampler).__name__ in TRACED
        and (mass is None or isinstance(mass, (UnitMass, ConstantMass)))
    )


class _Numbers:
    """A stand-in for a random generator: `give` returns the numbers for a law and a shape."""

    def __init__(self, give: Callable[..., Any]) -> None:
        self._give: Callable[..., Any] = give

    def standard_normal(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return self._give(("normal", dtype), shape)

    def standard_exponential(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return self._give(("exponential", dtype), shape)

    def rows(self, count: int, shape: tuple[int, ...]) -> Any:
        return self._give(("randint", count), shape)


def _drawn(key: Any, law: tuple[str, Any], shape: tuple[int, ...]) -> Any:
    """Draw an array of this shape from a law, given a random key of JAX."""
    import jax

    name, what = law
    if name == "randint":
        return jax.random.randint(key, shape, 0, what)
    return getattr(jax.random, name)(key, shape, what)


def _run_in_jax(
    target: Any, sampler: Any, start: Array, steps: int, seed: int, burn_in: int, thin: int
) -> tuple[Array, Any]:
    """Run the steps in JAX; return the kept positions, shape (kept, chains, D), and last state."""
    import jax
    import jax.numpy as jnp

    whole = target.target if isinstance(target, ControlVariates) else target
    theta, key = jnp.asarray(start), jax.random.key(seed)
    sizes = None
    if callable(sampler.step_size):
        every = [step_size_at(sampler.step_size, step) for step in range(steps)]
        sizes = jnp.asarray(every, theta.dtype)
    keys = iter(jax.random.split(jax.random.fold_in(key, steps), 8))  # none needs more
    state = sampler.init(_Numbers(lambda *what: _drawn(next(keys), *what)), theta)
    numbers: int = getattr(sampler, "leaps", 1) * len(start) * max(target.size, whole.batch or 0)
    most = max(1, BLOCK // numbers)
    kept = []
    for done in range(0, steps, most):
        length = min(most, steps - done)
        found = _block(sampler, target)(
            jax.random.fold_in(key, done), state, whole.data, sizes, length=length
        )
        state, thetas = found[0], np.asarray(found[1])
        for step, total in enumerate(thetas.sum((1, 2)), done + 1):
            check_finite(float(total), sampler, step)
        after = max(burn_in - done, 0)
        kept.append(thetas[after + (burn_in - 1 - done - after) % thin :: thin])
    return np.concatenate(kept), jax.tree.map(np.asarray, state)._replace(step=steps)


@lru_cache(maxsize=4)
def _block(sampler: Any, target: Any) -> Callable[..., Any]:
    """Return a compiled function that makes many steps, with random numbers drawn in advance."""
    import jax

    def reading(target: Any, data: Any) -> Any:
        moved = copy(target)  # the data are arguments, not constants of the compiled function
        if isinstance(target, ControlVariates):
            moved.target = reading(target.target, data)
        else:
            moved.data = data
        return moved

    def block(key: Any, state: Any, data: Any, sizes: Any, length: int) -> Any:
        own = sampler if sizes is None else replace(sampler, step_size=lambda step: sizes[step])
        moved, asked = reading(target, data), Counter[Any]()

        def count(*what: Any) -> Any:
            asked[what] += 1
            return _drawn(key, *what)

        jax.eval_shape(lambda state: own.step(_Numbers(count), state, moved), state)
        drawn = [
            _drawn(jax.random.fold_in(key, k), law, (length, many, *shape))
            for k, ((law, shape), many) in enumerate(asked.items())
        ]

        def step(state: Any, numbers: Any) -> tuple[Any, Any]:
            left = {what: iter(each) for what, each in zip(asked, numbers, strict=True)}
            new = own.step(_Numbers(lambda *what: next(left[what])), state, moved)
            new = jax.tree.map(lambda new, old: jax.numpy.asarray(new, old.dtype), new, state)
            return new, new.theta

        return jax.lax.scan(step, state, drawn)

    return jax.jit(block, static_argnames="length")
