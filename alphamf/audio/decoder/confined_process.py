"""The connection to a confined process, whose answers are checked."""

from __future__ import annotations

import io
import json
import socket
from typing import Any

from alphamf.audio.decoder import helper, messages
from alphamf.audio.layout import DecodingError
from alphamf.errors import AlphaMFError
from alphamf.tools.files import printable_name, reason

_TEXT = 1 << 20
"""Maximum number of bytes of a sentence, or of what is known of a file."""


class NoSandboxError(Exception):
    """Error for a kernel that cannot confine processes; nothing was read."""


class ConfinedProcess:
    """A confined process that works on a file."""

    def __init__(self, asked: dict[str, Any], descriptors: list[int], failure: str) -> None:
        self._failure = failure
        ours, theirs = socket.socketpair()
        with ours, theirs:
            file, *others = descriptors
            try:
                request = json.dumps(asked).encode()
                helper.request(request, [file, theirs.fileno(), *others])
            except OSError as error:
                raise self._unstarted(reason(error)) from error
            self._channel = io.FileIO(ours.detach(), "r+")
        layers = bytearray(1)
        try:
            messages.header(self._channel)
            messages.fill(self._channel, memoryview(layers))
        except EOFError:
            self.close()
            raise self._unstarted("it ended immediately") from None
        if not helper.record(layers[0]):
            self.close()
            raise NoSandboxError

    def close(self) -> None:
        """End the process."""
        self._channel.close()

    def ask(self, kind: bytes, data: Any = b"", *, number: int | None = None) -> int:
        """Send a request, and return the size in bytes of the answer that follows."""
        try:
            messages.send(self._channel, kind, data, number=number)
        except EOFError:
            raise self.crash_error() from None
        return self.answer()

    def answer(self) -> int:
        """Return the size of the next answer in bytes."""
        try:
            kind, length = messages.header(self._channel)
        except EOFError:
            raise self.crash_error() from None
        if kind == messages.DONE:
            return length
        if kind == messages.MEMORY:
            raise MemoryError
        error = _ERRORS.get(kind)
        if error is None:
            raise self.crash_error()
        raise error(printable_name(self._bytes(length).decode("utf-8", "replace")))

    def facts(self, length: int) -> Any:
        """Receive an answer in JSON."""
        try:
            return json.loads(self._bytes(length))
        except (ValueError, RecursionError):
            raise self.crash_error() from None

    def fill(self, into: memoryview) -> None:
        """Receive the bytes of an answer."""
        try:
            messages.fill(self._channel, into)
        except EOFError:
            raise self.crash_error() from None

    def crash_error(self) -> AlphaMFError:
        """Return the error for a process that has ended or sent an invalid answer."""
        return AlphaMFError(f"{self._failure}: the decoder crashed")

    def _bytes(self, length: int) -> bytearray:
        if length > _TEXT:
            raise self.crash_error()
        data = bytearray(length)
        self.fill(memoryview(data))
        return data

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
