"""The loop: run a sampler on a target, record what the run is for, and resume after a stop."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.inference import checkpoint as saved
from alphamf.inference.protocols import Record, Sampler, State, Target
from alphamf.inference.random import START, Key, generator
from alphamf.tools.arrays import Array, namespace, to_host

S = TypeVar("S", bound=State)

LOOK = 50
"""Steps between looks at theta on a device, which has to finish all its work for each of them."""

Statistic = Callable[[Array, Any], Array]
"""A function of theta and the target, whose value has theta's leading chain axes."""


def run(
    target: Target[Any],
    sampler: Sampler[S],
    *,
    steps: int,
    seed: int,
    chain: int = 0,
    chains: tuple[int, ...] = (),
    start: Array | None = None,
    record: Record | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    segment: int = 1000,
) -> Iterator[S]:
    """Run a sampler, and yield the state after every step.

    The run is cut into segments. Segment k (from 1) draws from the stream
    ``generator(seed, chain, k)``, the start and ``sampler.init`` from stream 0. At the end of each
    full segment, before its last state is yielded, the checkpoint is replaced. A run whose
    checkpoint exists goes on from there and yields what is left, bit for bit what the unbroken run
    yields; where nothing is left it yields nothing and fills the record. `steps` may differ
    between the two.

    Parameters
    ----------
    target
        Used by one chain at a time: it may hold latents and buffers.
    sampler
        What moves theta.
    steps
        Number of steps in all, those before a resumed checkpoint included.
    seed, chain
        Key of the random streams; another `chain` is an independent run under the same seed.
    chains
        Leading axes of theta: chains that move together. Not with `start`, which has its own.
    start
        Starting value, shape (*chains, D). The target and its latents are then taken as they are.
        None: ``target.start``, on the CPU; on a device, `start` is needed.
    record
        Takes in every state, after its step.
    checkpoint
        File to write and to resume from, an ``.npz`` without pickled objects. A target's counters
        are not in it, nor its data: give the same target.
    segment
        Number of steps between checkpoints.

    Raises
    ------
    AlphaMFError
        An argument is out of range; the checkpoint cannot be read, or belongs to another run; or
        the sampler or record cannot be told from another by its repr. All at once, before the
        first step. Later, theta is no longer finite.
    """
    if steps < 0:
        raise AlphaMFError(f"steps must not be negative, not {steps}")
    if segment < 1:
        raise AlphaMFError(f"segment must be at least 1, not {segment}")
    if start is not None and chains:
        raise AlphaMFError(f"chains {chains} must not be given together with start")
    xp = np if start is None else namespace(start)
    rng = generator(seed, Key.CHAIN + chain, START, xp=xp)
    state = sampler.init(rng, target.start(rng, chains) if start is None else start)
    path = None if checkpoint is None else Path(checkpoint)
    identity: dict[str, Any] = {}
    if path is not None:
        identity = {
            "sampler": saved.fingerprint(sampler),
            "record": saved.fingerprint(record),
            "seed": seed,
            "chain": chain,
            "segment": segment,
        }
        if not path.parent.is_dir():
            raise AlphaMFError(f"checkpoint {path} is in a folder that does not exist")
        if path.exists():
            state = saved.load(path, identity, state, target, record)

    def states(state: S) -> Iterator[S]:
        while state.step < steps:
            if state.step % segment == 0:
                stream = generator(seed, Key.CHAIN + chain, state.step // segment + 1, xp=xp)
            state = sampler.step(stream, state, target)
            if xp is np or state.step % LOOK == 0 or state.step == steps:
                _check_finite(state, sampler)
            if record is not None:
                record.add(state, target)
            if path is not None and state.step % segment == 0:
                saved.save(path, identity, state, target, record)
            yield state

    return states(state)


def _check_finite(state: State, sampler: Sampler[Any]) -> None:
    # A sum is finite only where all its terms are, and needs no array of its own.
    total = float(state.theta.sum())
    if not isfinite(total):
        raise AlphaMFError(
            f"the {type(sampler).__name__} chain diverged at step {state.step} (theta is {total}): "
            "it needs a smaller step_size, or another sampler"
        )


class Mean:
    """Mean and standard deviation of a statistic, over kept steps and leading chain axes.

    Steps after `burn_in` are kept, every `thin`-th of them. Updated in place by Welford's method,
    in the statistic's dtype.

    Parameters
    ----------
    statistic
        Function of theta and the target, of shape (*chains, ...).
    burn_in
        Number of steps that are dropped first.
    thin
        Distance between kept steps.
    apart
        Number of theta's last leading axes that are not averaged over: clips, and not chains.

    Attributes
    ----------
    count
        Number of kept values: steps times chains.

    References
    ----------
    Chan, Golub & LeVeque, American Statistician 37 (1983), for several chains at once.
    """

    def __init__(
        self, statistic: Statistic, *, burn_in: int, thin: int = 1, apart: int = 0
    ) -> None:
        _check_kept(burn_in, thin)
        self.statistic = statistic
        self.burn_in, self.thin, self.apart = burn_in, thin, apart
        self.count = 0
        self._mean: Array
        self._square: Array  # sum of squared deviations from the mean

    def __repr__(self) -> str:
        return f"Mean(burn_in={self.burn_in}, thin={self.thin}, apart={self.apart})"

    def add(self, state: Any, target: Any) -> None:
        """Take in one state."""
        if not _kept(state.step, self.burn_in, self.thin):
            return
        value = self.statistic(state.theta, target)
        axes = tuple(range(state.theta.ndim - 1 - self.apart))
        batch = int(np.prod(value.shape[: len(axes)]))
        mean = value.mean(axes) if axes else value
        if self.count == 0:
            xp = namespace(value)
            self._mean, self._square = xp.zeros_like(mean), xp.zeros_like(mean)
        self.count += batch
        change = mean - self._mean
        self._mean += change * (batch / self.count)
        change *= change
        change *= batch * (self.count - batch) / self.count
        self._square += change
        if axes:
            self._square += ((value - mean) ** 2).sum(axes)

    @property
    def mean(self) -> Array:
        """Mean of the kept values, of the statistic's shape without the axes averaged over."""
        self._require()
        return self._mean.copy()

    @property
    def std(self) -> Array:
        """Posterior standard deviation: the root of the kept values' second central moment."""
        self._require()
        std: Array = namespace(self._square).sqrt(self._square / self.count)
        return std

    def _require(self) -> None:
        if not self.count:
            raise AlphaMFError(f"no state was kept yet: burn_in is {self.burn_in}")

    def arrays(self) -> dict[str, Array]:
        """Return what a checkpoint stores."""
        count = {"count": np.asarray(self.count)}
        return {**count, "mean": self._mean, "square": self._square} if self.count else count

    def load(self, arrays: dict[str, Array]) -> None:
        """Take back what `arrays` returned."""
        self.count = int(arrays["count"])
        if self.count:
            self._mean, self._square = arrays["mean"], arrays["square"]


class Trace:
    """Every kept value of a statistic, copied to the CPU.

    Parameters
    ----------
    statistic
        Function of theta and the target.
    burn_in, thin
        As in `Mean`.
    """

    def __init__(self, statistic: Statistic, *, burn_in: int = 0, thin: int = 1) -> None:
        _check_kept(burn_in, thin)
        self.statistic = statistic
        self.burn_in, self.thin = burn_in, thin
        self._values: list[Array] = []

    def __repr__(self) -> str:
        return f"Trace(burn_in={self.burn_in}, thin={self.thin})"

    def add(self, state: Any, target: Any) -> None:
        """Take in one state."""
        if _kept(state.step, self.burn_in, self.thin):
            self._values.append(np.array(to_host(self.statistic(state.theta, target))))

    @property
    def values(self) -> Array:
        """The kept values, shape (kept, ...)."""
        if not self._values:
            raise AlphaMFError(f"no state was kept yet: burn_in is {self.burn_in}")
        return np.stack(self._values)

    def arrays(self) -> dict[str, Array]:
        """Return what a checkpoint stores."""
        return {"values": self.values} if self._values else {}

    def load(self, arrays: dict[str, Array]) -> None:
        """Take back what `arrays` returned."""
        self._values = list(to_host(arrays["values"])) if arrays else []


def _check_kept(burn_in: int, thin: int) -> None:
    if burn_in < 0:
        raise AlphaMFError(f"burn_in must not be negative, not {burn_in}")
    if thin < 1:
        raise AlphaMFError(f"thin must be at least 1, not {thin}")


def _kept(step: int, burn_in: int, thin: int) -> bool:
    return step > burn_in and (step - burn_in) % thin == 0
