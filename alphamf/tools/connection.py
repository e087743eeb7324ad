"""Find a Dask cluster, or start one on this machine, and leave nothing of that behind."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any

from alphamf.errors import AlphaMFError
from alphamf.tools import pool
from alphamf.tools.files import shown

if TYPE_CHECKING:
    from distributed import Client

LOCAL = "local"
"""In place of an address: a cluster of this run's own, on this machine."""

PATIENCE = 10.0
"""How long a scheduler may take to answer, in seconds."""


@contextmanager
def connected(address: str, workers: int) -> Iterator[Client]:
    """Give a client of a cluster, which is closed, and ends with the client if it is local.

    Parameters
    ----------
    address
        Of a scheduler, or `LOCAL`.
    workers
        Number of processes of a local cluster.

    Raises
    ------
    AlphaMFError
        The package distributed is missing, or no scheduler answers.
    """
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        sentence = "--cluster needs the package distributed: pip install 'alphamf[cluster]'"
        raise AlphaMFError(sentence) from error
    # What concerns the user is said in sentences.
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with ExitStack() as stack:
        target: Any = address
        if address == LOCAL:
            # Its start would let signals through again.
            resource_tracker.ensure_running()
            # The workers end by word from here, so that none leaves half a file.
            with pool.held(signal.SIGINT, signal.SIGTERM):
                target = stack.enter_context(
                    LocalCluster(
                        n_workers=workers,
                        threads_per_worker=1,
                        memory_limit=0,
                        dashboard_address="127.0.0.1:0",
                        silence_logs=logging.CRITICAL,
                    )
                )
        else:
            _knock(address)
        yield stack.enter_context(Client(target, timeout=PATIENCE, set_as_default=False))


def _knock(address: str) -> None:
    """Refuse an address where no scheduler answers; a Client would leave things behind."""
    from distributed.comm import connect
    from distributed.security import Security

    async def call() -> None:
        async with asyncio.timeout(PATIENCE):
            comm = await connect(address, **Security().get_connection_args("client"))
            await comm.close()

    sentence = f"no Dask scheduler answers at --cluster {shown(address)}"
    try:
        asyncio.run(call())
    except TimeoutError as error:
        raise AlphaMFError(f"{sentence} within {PATIENCE:g} s") from error
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        raise AlphaMFError(f"{sentence}: {error}") from error


def where(client: Client) -> str:
    """Return a sentence that says where the tasks run and can be watched."""
    info = client.scheduler_info(n_workers=0)
    address, count = info["address"], info["n_workers"]
    text = f"Dask: {count} worker{'s' * (count != 1)}, "
    if client.run_on_scheduler(find_spec, "bokeh") is None:
        return f"{text}scheduler at {address} (no dashboard: bokeh is not installed there)"
    return f"{text}dashboard at {client.dashboard_link}"
