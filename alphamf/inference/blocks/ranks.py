"""MPI ranks: processes that exchange messages, or a single process that does all the work."""

import os
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Array
from alphamf.tools.extras import install_extra

LAUNCHERS = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")
"""Environment variables in which MPI launchers pass the rank: MPICH and its derivatives, PMIx, Open
MPI."""

PAUSE = 2e-5
"""Seconds between polls of an unfinished message. MPI's own wait would keep the core busy, which
the other ranks need where there are more of them than cores, and would not react to Ctrl-C."""

WATCHER = "import sys\nif not sys.stdin.read(): sys.stderr.write(sys.argv[1])"


class LostRank(AlphaMFError):
    """Error for a message to or from another rank that failed, e.g. because that rank ended."""


class Message(NamedTuple):
    """An array to send to, or receive from, another rank."""

    rank: int  # The other rank
    tag: int  # Number by which both sides identify the message
    array: Array  # Array to send, or buffer that receives it


class SingleProcess:
    """A single process in place of several ranks: no messages are sent."""

    rank: int = 0
    size: int = 1
    sent: int = 0

    def exchange(self, outgoing: Sequence[Message], incoming: Sequence[Message]) -> None:
        """Send nothing: all blocks are local."""

    def gather(self, own: Array) -> Array:
        """Return the rows of all blocks, which are all local."""
        return own

    def collect(self, item: Any) -> list[Any] | None:
        """Return a list of the items of all ranks: of this one alone."""
        return [item]

    def barrier(self) -> None:
        """Return at once: there are no other ranks to wait for."""

    def abort_on_error(self) -> AbstractContextManager[None]:
        """Return a context that changes nothing: errors are raised as usual."""
        return nullcontext()

    def report_loss(self, sentence: str) -> AbstractContextManager[None]:
        """Return a context that changes nothing: no other rank can be lost."""
        return nullcontext()


class Ranks:
    """All processes that one MPI launcher started."""

    # rank, size: index of this rank, and number of ranks.
    rank: int
    size: int
    # Bytes that `exchange` and `gather` handed over to other ranks so far. A row that is gathered
    # counts once for each rank that gets it.
    sent: int

    def __init__(self, comm: Any, broken: type[Exception]) -> None:
        self._comm, self._broken = comm, broken
        self.rank, self.size, self.sent = int(comm.rank), int(comm.size), 0

    def exchange(self, outgoing: Sequence[Message], incoming: Sequence[Message]) -> None:
        """Send `outgoing`, receive `incoming` in place; wait for both, or raise a LostRank."""
        requests = [self._comm.Irecv(array, rank, tag) for rank, tag, array in incoming]
        for rank, tag, array in outgoing:
            requests.append(self._comm.Isend(array, rank, tag))
            self.sent += array.nbytes
        self._wait(*requests)

    def gather(self, own: Array) -> Array:
        """Return the rows of all blocks in order, given those of this rank's blocks.

        Every rank can then add the same numbers in the same order, unlike a sum by MPI.
        """
        rows = np.empty((self.size * len(own), *own.shape[1:]), own.dtype)
        self._wait(self._comm.Iallgather(own, rows))
        self.sent += own.nbytes * (self.size - 1)
        return rows

    def collect(self, item: Any) -> list[Any] | None:
        """Return the items of all ranks on rank 0, None on the others; not counted as traffic."""
        self.barrier()
        return self._comm.gather(item)

    def broadcast(self, item: Any) -> Any:
        """Return the item of rank 0 on all ranks; not counted as traffic."""
        self.barrier()
        return self._comm.bcast(item)

    def barrier(self) -> None:
        """Wait until all ranks have reached this call."""
        self._wait(self._comm.Ibarrier())

    def _wait(self, *requests: Any) -> None:
        try:
            # A finished request becomes a null request, which is finished as well.
            while not all([request.Test() for request in requests]):
                time.sleep(PAUSE)
        except self._broken as error:
            short = str(error).partition(", error stack")[0]
            raise LostRank(f"a message to or from another rank failed ({short})") from error

    @contextmanager
    def abort_on_error(self) -> Iterator[None]:
        """Return a context in which an error is printed and ends all ranks: others would hang."""
        try:
            yield
        except Exception as error:
            # Rank 0 reports an error that all ranks have, and ends the others.
            time.sleep(2.0 * (self.rank > 0))
            known = isinstance(error, AlphaMFError)
            sys.stderr.write(f"Error: {error}\n" if known else traceback.format_exc())
            sys.stderr.flush()
            # A launcher drops output that it has not read when the ranks end.
            time.sleep(0.5)
            self._comm.Abort(2 if known else 1)

    @contextmanager
    def report_loss(self, sentence: str) -> Iterator[None]:
        """Return a context in which rank 0 has the error `sentence` printed if a rank is killed.

        A launcher that has lost a rank kills all others, so that none of them can print a message;
        a small process outside of their group notices that rank 0 has ended, and prints it.
        """
        if self.rank:
            yield
            return
        command = [sys.executable, "-ISc", WATCHER, f"Error: {sentence}\n"]
        watcher = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
        word: bytes | None = b"end"
        try:
            yield
        except LostRank:
            word = None
            raise
        finally:
            watcher.communicate(word)


def launched_ranks() -> Ranks | None:
    """Return the ranks, or None if no MPI launcher started this process; raise without MPI."""
    if not any(name in os.environ for name in LAUNCHERS):
        return None
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise AlphaMFError(
            "this process is one of several MPI ranks, but mpi4py or the MPI library "
            f"cannot be loaded ({error}); install them with {install_extra('mpi')}"
        ) from error
    return Ranks(MPI.COMM_WORLD, MPI.Exception)
