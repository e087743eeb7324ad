"""Where the work of a command is done: in processes of this machine, or on a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import typer

from alphamf.tools import pool
from alphamf.tools.work import Outcome

Each = Callable[..., Iterator[Outcome]]
"""A function like `alphamf.tools.pool.each`."""


def each_on(cluster: str | None, *, quiet: bool) -> Each:
    """Return `alphamf.tools.pool.each`, or its counterpart for the address of a Dask cluster."""
    report = None if quiet else partial(typer.echo, err=True)
    if cluster is None:
        return partial(pool.each, report=report)
    from alphamf.tools import cluster as dask

    return partial(dask.each, address=cluster, report=report)
