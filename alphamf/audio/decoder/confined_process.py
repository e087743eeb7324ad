"""The connection to a confined process, whose answers and whose time are limited."""

from __future__ import annotations

import io
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from contextlib import ExitStack, suppress
from typing import Any

from alphamf.audio.decoder import helper, messages
from alphamf.audio.layout import DecodingError
from alphamf.errors import AlphaMFError
from alphamf.tools.files import printable, reason

_FACTS, _SENTENCE = 1 << 16, 1 << 13
"""Maximum number of bytes of what is known of a file, and of a sentence about it."""

STARTED = struct.Struct("=BI")
"""The first answer: what confines the process, and its number."""

PATIENCE = 30.0
"""Seconds of processor time that a process may take for an answer, and one more for ..."""

BYTES_PER_SECOND = 200_000
"""... so many bytes of its file. Scans and decoders need a tenth of this or less."""

_ELAPSED = 10
"""Seconds that may pass for one of processor time, on a busy machine."""

_TICK = 1.0
"""Seconds between two looks at the clocks. Time in which this process is stopped does not count."""


class NoSandboxError(Exception):
    """Error for a kernel that cannot confine processes; nothing was read."""


class ConfinedProcess:
    """A confined process that works on a file; it is killed when the connection is closed."""

    def __init__(self, asked: dict[str, Any], descriptors: list[int], failure: str) -> None:
        self._failure = failure
        self._patience = PATIENCE + os.fstat(descriptors[0]).st_size / BYTES_PER_SECOND
        self._waited, self._used = 0.0, 0.0
        self._number, self._process = 0, -1
        self._stack = ExitStack()
        try:
            layers = self._started(asked, descriptors)
        except BaseException:
            self.close()
            raise
        if not helper.record(layers):
            self.close()
            raise NoSandboxError

    def _started(self, asked: dict[str, Any], descriptors: list[int]) -> int:
        """Have the process started, and return what confines it."""
        with suppress(EOFError):  # the helper was killed after it took the request
            return self._start(asked, descriptors)
        with suppress(EOFError):
            return self._start(asked, descriptors)
        raise self._unstarted("it ended immediately")

    def _start(self, asked: dict[str, Any], descriptors: list[int]) -> int:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            file, *others = descriptors
            try:
                helper.request(json.dumps(asked).encode(), [file, theirs.fileno(), *others])
            except OSError as error:
                raise self._unstarted(reason(error)) from error
            ours.setblocking(False)
            self._channel = self._stack.enter_context(io.FileIO(ours.detach(), "r+"))
        started = bytearray(STARTED.size)
        messages.header(self._channel, self._wait)
        messages.fill(self._channel, memoryview(started), self._wait)
        layers, self._number = STARTED.unpack(started)
        if sys.platform == "linux":
            with suppress(OSError):  # it has ended, or the kernel is old
                self._process = os.pidfd_open(self._number)
                self._stack.callback(os.close, self._process)
        return int(layers)

    def close(self) -> None:
        """End the process."""
        if sys.platform == "linux" and self._process >= 0:
            with suppress(OSError):
                signal.pidfd_send_signal(self._process, signal.SIGKILL)
            self._process = -1
        self._stack.close()

    def ask(self, kind: bytes, data: Any = b"", *, number: int | None = None) -> int:
        """Send a request, and return the size in bytes of the answer that follows."""
        self._waited, self._used = 0.0, self._processor_time()
        try:
            messages.send(self._channel, kind, data, number=number, wait=self._wait)
        except EOFError:
            raise self.crash_error() from None
        return self.answer()

    def answer(self) -> int:
        """Return the size of the next answer in bytes."""
        try:
            kind, length = messages.header(self._channel, self._wait)
        except EOFError:
            raise self.crash_error() from None
        if kind == messages.DONE:
            return length
        if kind == messages.MEMORY:
            raise MemoryError
        error = _ERRORS.get(kind)
        if error is None:
            raise self.crash_error()
        raise error(printable(self._bytes(length, _SENTENCE).decode("utf-8", "replace")))

    def facts(self, length: int) -> Any:
        """Receive an answer in JSON."""
        try:
            return json.loads(self._bytes(length, _FACTS))
        except (ValueError, RecursionError):
            raise self.crash_error() from None

    def fill(self, into: memoryview) -> None:
        """Receive the bytes of an answer."""
        try:
            messages.fill(self._channel, into, self._wait)
        except EOFError:
            raise self.crash_error() from None

    def crash_error(self) -> AlphaMFError:
        """Return the error for a process that has ended or sent an invalid answer."""
        return AlphaMFError(f"{self._failure}: the decoder crashed")

    def _bytes(self, length: int, most: int) -> bytearray:
        if length > most:
            raise self.crash_error()
        data = bytearray(length)
        self.fill(memoryview(data))
        return data

    def _wait(self, writing: bool) -> None:
        """Wait until the channel can be used, or until the process has taken too long."""
        if sys.platform == "win32":
            raise EOFError
        poll = select.poll()
        poll.register(self._channel, select.POLLOUT if writing else select.POLLIN)
        while not poll.poll(1000 * _TICK):
            self._waited += _TICK
            used = self._processor_time() - self._used
            if used > self._patience or self._waited > _ELAPSED * self._patience:
                self.close()
                spent = f"{self._patience:.0f} s of processor time"
                if used <= self._patience:
                    spent = f"{self._waited:.0f} s"
                raise AlphaMFError(f"{self._failure}: the decoder took more than {spent}")

    def _processor_time(self) -> float:
        """Return the seconds of processor time of the process; 0 if they are not known."""
        if sys.platform == "linux" and self._process >= 0:
            with suppress(OSError):  # clock_getcpuclockid(3)
                return time.clock_gettime(~self._number << 3 | 2)
        return 0.0

    def _unstarted(self, why: str) -> AlphaMFError:
        return AlphaMFError(
            f"{self._failure}: no process can be started for it ({why}); use `no_sandbox` to "
            "decode it in this process"
        )


_ERRORS: dict[bytes, type[Exception]] = {
    messages.REFUSED: AlphaMFError,
    messages.UNDECODABLE: DecodingError,
    messages.INVALID: ValueError,
}
