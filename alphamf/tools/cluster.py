"""Call a function for many items on a Dask cluster, in the same way as `alphamf.tools.pool`.

When a worker is lost, Dask repeats its unfinished tasks on another one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, chdir, contextmanager
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from alphamf.errors import AlphaMFError
from alphamf.tools.extras import install_extra
from alphamf.tools.files import current_folder, printable_name
from alphamf.tools.outcomes import Item, Outcome, Report, Update, Work, attempt, sort_by_place
from alphamf.tools.processes import keep_path_safe, shield_helpers

if TYPE_CHECKING:
    from distributed import Client, Worker

LOCAL = "local"
"""Value of `address` that starts a cluster on this machine, for this run."""

PATIENCE = 10.0
"""Maximum time for a scheduler to answer, in seconds."""


@contextmanager
def connect_client(address: str, workers: int) -> Iterator[Client]:
    """Yield a client of the cluster at an address, or of a new local cluster for this block."""
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
    """Return as text the number of workers, and the dashboard's link or the scheduler's address."""
    info = client.scheduler_info(n_workers=0)
    address, count = info["address"], info["n_workers"]
    text = f"Dask: {count} worker{'s' * (count != 1)}, "
    if client.run_on_scheduler(find_spec, "bokeh") is None:
        return f"{text}scheduler at {address} (no dashboard: bokeh is not installed there)"
    return f"{text}dashboard at {client.dashboard_link}"


_INTERVAL = 1.0
"""Minimum time in seconds between a worker's progress messages, except an item's last message."""


class Task(NamedTuple):
    """Data that all tasks of a run share."""

    work: Work  # Takes an item and a progress callback
    folder: str  # Working folder of the tasks, so that relative names mean the same as here
    version: str  # Version of alphamf
    topic: str | None  # Dask topic of the progress messages, or None


def each(
    work: Work,
    items: Sequence[Item],
    *,
    workers: int,
    update: Update | None = None,
    in_order: bool = True,
    address: str,
    report: Report | None = None,
) -> Iterator[Outcome]:
    """Yield the outcome of `work` for every item, computed on the Dask cluster at `address`."""
    if not items:
        return
    folder = current_folder()
    if report and (note := caution(address)):
        report(note)
    with connect_client(address, min(workers, len(items))) as client:
        topic = f"alphamf-{uuid4()}" if update else None
        task = Task(work, folder, version("alphamf"), topic)
        _check(client, task)
        if report:
            report(describe(client))
        if update and topic:
            client.subscribe_topic(topic, lambda event: update(*event[1]))
        found = _outcomes(client, task, items, range(len(items)))
        for _, outcome in sort_by_place(found) if in_order else found:
            yield outcome


def _check(client: Client, task: Task) -> None:
    """Raise an AlphaMFError if a worker cannot run the task or the scheduler's version differs."""
    places = client.run(_unfit, task, on_error="return")
    found = {
        f"worker {address}": problem
        for address, problem in places.items()
        if not isinstance(problem, OSError)  # it was lost meanwhile
    }
    try:
        found["the scheduler"] = client.run_on_scheduler(_other_version, task)
    except Exception as error:  # unpickling may raise anything
        found["the scheduler"] = error
    for place, problem in found.items():
        if isinstance(problem, Exception):
            problem = f"cannot import alphamf: {problem}"
        if problem is not None:
            raise AlphaMFError(f"`cluster`: {place} {problem}")


def _other_version(task: Task) -> str | None:
    """Return an error phrase if alphamf's version here is not `task.version`, otherwise None."""
    found = version("alphamf")
    if found == task.version:
        return None
    return f"has alphamf {found}, but this machine has {task.version}"


def _unfit(task: Task, dask_worker: Worker) -> str | None:
    """Return an error phrase that says why a worker cannot run the task, or None."""
    threads = dask_worker.state.nthreads
    if threads != 1:
        # Threads would share the working folder, and the counters of time and memory.
        return f"has {threads} threads; start it with `nthreads` 1"
    if not os.path.isdir(task.folder):
        return f"cannot find the folder {printable_name(task.folder)}"
    return _other_version(task)


def _outcomes(
    client: Client, task: Task, items: Sequence[Item], places: Sequence[int]
) -> Iterator[tuple[int, Outcome]]:
    """Yield place and outcome of the items at the given places, as soon as each is ready."""
    from distributed import KilledWorker, as_completed

    # As bytes, or Dask would look for its own keys in them.
    packed = [pickle.dumps(items[k]) for k in places]
    futures = client.map(partial(_attempt, task=task), packed, key="alphamf", pure=False)
    left = dict(zip(futures, places, strict=True))
    suspects: list[int] = []
    try:
        for future, result in as_completed(
            futures, loop=client.loop, with_results=True, raise_errors=False
        ):
            k, status = left.pop(future), future.status
            # If a worker is lost, Dask repeats its tasks whose futures are held, finished or not.
            future.release()
            if status == "finished":
                yield k, result._replace(item=items[k])
            elif status != "error":
                raise AlphaMFError(
                    "`cluster`: the connection to the scheduler was lost, or the scheduler "
                    "cancelled the tasks"
                )
            elif issubclass(result[0], KilledWorker):
                if len(places) > 1:
                    suspects.append(k)
                    continue
                sentence = "its worker was killed several times, perhaps because memory ran out"
                yield k, Outcome(items[k], error=sentence, code=1)
            else:
                sentence = f"{result[0].__name__}: {result[1]}"
                yield k, Outcome(items[k], error=sentence, code=1)
    finally:
        client.cancel(list(left))
    # Dask blames the end of a worker on all tasks that it held, so each is now tried alone.
    for k in suspects:
        yield from _outcomes(client, task, items, [k])


def _attempt(packed: bytes, task: Task) -> Outcome:
    """Process an item on a worker, in `task.folder`; the outcome does not contain the item."""
    from distributed import Reschedule, Status, get_worker

    worker = get_worker()
    key = worker.get_current_task()
    last = 0.0
    stopped = False

    def update(name: str, done: float, total: float) -> None:
        nonlocal last, stopped
        state = worker.state.tasks.get(key)
        closing = worker.status in (Status.closing, Status.closed)
        stopped = closing or state is None or state.state != "executing"
        if stopped:
            raise Reschedule
        now = time.monotonic()
        if task.topic and (now - last >= _INTERVAL or done >= total):
            last = now
            worker.log_event(task.topic, (name, done, total))

    problem = _unfit(task, worker)
    if problem is not None:
        return Outcome(None, error=f"worker {worker.address} {problem}", code=2)
    with chdir(task.folder):
        outcome = attempt(task.work, pickle.loads(packed), update)
    if stopped:
        # Nobody waits for a cancelled task; that of a closing worker is done by another one.
        raise Reschedule
    return outcome._replace(item=None)
