"""The loop: run a sampler on a target, record statistics, and resume after a stop."""

import os
from collections.abc import Iterator
from math import isfinite
from operator import index
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from alphamf.errors import AlphaMFError, DivergenceError
from alphamf.inference import checkpoint as saved
from alphamf.inference.protocols import Record, Sampler, State, Target
from alphamf.inference.random import START, Key, generator
from alphamf.inference.ranges import NOT_NEGATIVE, at_least, check_range
from alphamf.tools.arrays import Array, namespace

S = TypeVar("S", bound=State)

CHECK_EVERY = 50
"""Steps between divergence checks on a GPU; each check synchronises the device."""


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

    The run is cut into segments. Segment k (from 1) draws from the stream ``generator(seed, chain,
    k)``, the start and ``sampler.init`` from stream 0. At the end of each full segment, before its
    last state is yielded, the checkpoint is replaced. If the checkpoint exists, the run continues
    from there and yields the remaining states, bit for bit as in an uninterrupted run; if none are
    left, it yields nothing and only fills the record. `steps` may be more than before.

    Parameters
    ----------
    target
        Target to sample; it may hold latents and buffers, so only one run at a time may use it.
    sampler
        Sampler that moves theta.
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
        Record to which every state is added, after its step.
    checkpoint
        ``.npz`` file to write and to resume from. It does not contain the target's data and
        counters, nor variables that a statistic reads from outside: give the same ones again.
    segment
        Number of steps between checkpoints.

    Raises
    ------
    AlphaMFError
        An argument is out of range or excludes another; the checkpoint's folder does not exist; the
        checkpoint cannot be read, belongs to another run, or has more than `steps` steps; the repr
        of the sampler or record does not identify it. These are raised by the call itself. In a
        step: theta is not finite any more, or the sampler needs what the target does not have.

    Examples
    --------
    >>> from alphamf.inference.records import Mean
    >>> from alphamf.inference.samplers.langevin import SGLD
    >>> from alphamf.inference.targets.gaussian import LinearGaussian
    >>> target = LinearGaussian(np.eye(2), np.ones(2), 1.0)  # its posterior is N(1/2, I/2)
    >>> record = Mean(lambda theta, target: theta, burn_in=100)
    >>> for state in run(target, SGLD(0.05), steps=500, seed=0, chains=(100,), record=record):
    ...     pass
    >>> state.step, record.mean.round(1)
    (500, array([0.5, 0.5]))
    """
    # A checkpoint's identity is written as JSON, which cannot hold NumPy's integers.
    seed, chain, segment = index(seed), index(chain), index(segment)
    for name, value in (("steps", steps), ("seed", seed), ("chain", chain)):
        check_range(name, value, NOT_NEGATIVE)
    check_range("segment", segment, at_least(1))
    if start is not None and chains:
        raise AlphaMFError(f"chains {chains} cannot be combined with start")
    xp = np if start is None else namespace(start)
    rng = generator(seed, Key.CHAIN + chain, START, xp=xp)
    state = sampler.init(rng, target.start(rng, chains) if start is None else start)
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None:
        parts = {"sampler": saved.fingerprint(sampler), "record": saved.fingerprint(record)}
        identity = {**parts, "seed": seed, "chain": chain, "segment": segment}
        if not path.parent.is_dir():
            raise AlphaMFError(f"checkpoint {path} is in a folder that does not exist")
        if path.exists():
            state = saved.load(path, identity, state, target, record)
        if state.step > steps:
            raise AlphaMFError(f"checkpoint {path} has {state.step} steps, more than {steps}")

    def states(state: S) -> Iterator[S]:
        while state.step < steps:
            if state.step % segment == 0:
                stream = generator(seed, Key.CHAIN + chain, state.step // segment + 1, xp=xp)
            state = sampler.step(stream, state, target)
            if xp is np or state.step % CHECK_EVERY == 0 or state.step == steps:
                check_finite(float(state.theta.sum()), sampler, state.step)
            if record is not None:
                record.add(state, target)
            if path is not None and state.step % segment == 0:
                saved.save(path, identity, state, target, record)
            yield state

    return states(state)


def check_finite(total: float, sampler: Any, step: int) -> None:
    """Raise a DivergenceError if `total`, the sum of theta, is not finite."""
    if not isfinite(total):
        raise DivergenceError(
            f"the {type(sampler).__name__} chain diverged at step {step} (theta is "
            f"{total}); use a smaller step_size, or another sampler"
        )
