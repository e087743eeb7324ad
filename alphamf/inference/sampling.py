"""One call from a log density to samples with their diagnostics."""

from collections.abc import Callable, Iterator
from math import gcd
from typing import Any, NamedTuple

import numpy as np

from alphamf.errors import AlphaMFError, DivergenceError
from alphamf.inference.chain import run
from alphamf.inference.diagnostics import Summary, separate_chains, summarise
from alphamf.inference.protocols import Sampler, State, Target
from alphamf.inference.records import Trace
from alphamf.inference.samplers.langevin import SGLD
from alphamf.inference.targets.density import Density, DensityTarget
from alphamf.tools.arrays import Array


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

    Examples
    --------
    >>> found = sample(lambda theta: -theta, np.zeros((4, 1)), sampler=SGLD(0.1), steps=5000)
    >>> found.draws.shape, found.summary().std.round(1)
    ((4000, 4, 1), array([1.]))
    """

    draws: Array
    state: State
    turns: int

    def summary(self) -> Summary:
        """Return mean, standard deviation, their Monte Carlo error, ESS and R-hat, shape (D,)."""
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

    Parameters
    ----------
    density
        A function of one theta, shape (D,), and of rows of each data array: the gradient of the
        log-likelihood of these rows. It may also be `NumPyDensity`, `JaxDensity` or
        `TorchDensity`, or a `Target`, which has its own data.
    theta0
        Where chains start, shape (D,) for one chain or (chains, D).
    data, batch, prior
        As in `DensityTarget`; a gradient of a minibatch is scaled up to all data.
    sampler
        Sampler, such as ``SGLD(step_size=1e-3)``; None: `SGLD` with its default step.
    steps
        Number of steps, `burn_in` included.
    burn_in
        Number of steps that are dropped first; None: a fifth.
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
    record = Trace(lambda theta, target: theta, burn_in=burn_in, thin=thin)
    try:
        for last in run(target, sampler, steps=steps, seed=seed, start=start, record=record):
            state = last
    except DivergenceError as error:
        if any(not np.isfinite(array).all() for array in _numbers(data)):
            raise DivergenceError("data contains NaN or infinite values") from error
        raise
    turns = getattr(sampler, "turns", 1)
    return Samples(record.values, state, turns // gcd(turns, thin))


def _numbers(data: Any) -> Iterator[Array]:
    """Yield the data arrays that are of real numbers and lie in the memory of the processor."""
    for each in data if isinstance(data, (tuple, list)) else (data,):
        try:
            yield np.asarray(each).astype(float)
        except (TypeError, ValueError, RuntimeError):  # words; a tensor on a GPU
            continue


def _checked_start(theta0: Array) -> Array:
    """Return a copy of theta0 of shape (chains, D), in floating point."""
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
