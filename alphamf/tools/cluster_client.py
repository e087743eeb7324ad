"""Connect to a Dask cluster, or start one on this machine; nothing of it remains at the end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from alphamf.errors import AlphaMFError
from alphamf.tools.extras import install_extra
from alphamf.tools.files import printable_name
from alphamf.tools.processes import keep_path_safe, shield_helpers

if TYPE_CHECKING:
    from distributed import Client

LOCAL = "local"
"""In place of an address: start a cluster on this machine, for this run."""

PATIENCE = 10.0
"""How long a scheduler may take to answer, in seconds."""


@contextmanager
def connect_client(address: str, workers: int) -> Iterator[Client]:
    """Yield a client of a cluster, and close it at the end; a local cluster is stopped with it."""
    try:
        import dask
        from distributed import Client, LocalCluster
        from distributed.security import Security
    except ImportError as error:
        sentence = "`cluster` needs the package distributed; install it with "
        raise AlphaMFError(f"{sentence}{install_extra('cluster')}") from error
    # Errors that concern the user are raised as sentences.
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with ExitStack() as stack:
        target: Any = address
        if address == LOCAL:
            try:  # TLS keys: a local port is open to all users of the machine
                security = Security.temporary()
            except ImportError as error:
                sentence = "`cluster` local needs the package cryptography"
                raise AlphaMFError(f"{sentence}: {install_extra('cluster')}") from error
            # Dask's own default is a folder that whoever makes it first shares with all users.
            folder = TemporaryDirectory(prefix="alphamf-dask-", ignore_cleanup_errors=True)
            # Workers end with their connections; after a jump of the clock they would seem silent.
            settings = {
                "temporary-directory": stack.enter_context(folder),
                "distributed.scheduler.worker-ttl": None,
            }
            stack.enter_context(dask.config.set(settings))
            stack.enter_context(keep_path_safe())  # lost workers are started again
            # The workers are stopped from here, so that none leaves half a file.
            with shield_helpers():
                try:
                    cluster = LocalCluster(
                        n_workers=workers,
                        threads_per_worker=1,
                        memory_limit=0,
                        security=security,
                        dashboard_address="127.0.0.1:0",
                        silence_logs=logging.CRITICAL,
                    )
                except RuntimeError as error:
                    raise AlphaMFError(f"`cluster` local: {error}") from error
                target = stack.enter_context(cluster)
        else:
            _check_scheduler(address)
        yield stack.enter_context(Client(target, timeout=PATIENCE, set_as_default=False))


def caution(address: str) -> str | None:
    """Return a warning about who else can use the cluster at an address, or None."""
    if address == LOCAL or address.startswith("tls://"):
        return None
    return (
        f"Note: without TLS, everybody who can connect to `cluster` {printable_name(address)} "
        "can run code on its workers; on a shared network, use tls:// (docs/scale.md)"
    )


def _check_scheduler(address: str) -> None:
    """Raise an AlphaMFError if no scheduler answers at an address."""
    from distributed.comm import connect
    from distributed.security import Security

    async def call() -> None:
        async with asyncio.timeout(PATIENCE):
            comm = await connect(address, **Security().get_connection_args("client"))
            await comm.close()

    sentence = f"no Dask scheduler answered at `cluster` {printable_name(address)}"
    try:
        asyncio.run(call())
    except TimeoutError as error:
        raise AlphaMFError(f"{sentence} within {PATIENCE:g} s") from error
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        raise AlphaMFError(f"{sentence}: {error}") from error


def describe(client: Client) -> str:
    """Return a sentence with the scheduler's address, its workers and its dashboard."""
    info = client.scheduler_info(n_workers=0)
    address, count = info["address"], info["n_workers"]
    text = f"Dask: {count} worker{'s' * (count != 1)}, "
    if client.run_on_scheduler(find_spec, "bokeh") is None:
        return f"{text}scheduler at {address} (no dashboard: bokeh is not installed there)"
    return f"{text}dashboard at {client.dashboard_link}"
