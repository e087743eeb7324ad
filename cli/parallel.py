"""Run the work of a command in processes on this machine, or on a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from alphamf.cli import report
from alphamf.tools import pool
from alphamf.tools.outcomes import Outcome

Each = Callable[..., Iterator[Outcome]]
"""A function like `alphamf.tools.pool.each`."""


def choose_each(cluster: str | None, *, quiet: bool, isolated: bool = False) -> Each:
    """Return `alphamf.tools.pool.each`, or its equivalent for a Dask cluster."""
    note = None if quiet else report.note
    if cluster is None:
        return partial(pool.each, report=note, isolated=isolated)
    from alphamf.tools import cluster as dask

    return partial(dask.each, address=cluster, report=note)
