"""The sandbox: the helper that forks confined processes, their connections, and the messages.

The environment variable ``ALPHAMF_SANDBOX=off`` turns the sandbox off for commands, for the
library and for all processes that they start; an option of the commands sets it. Both sides parse
the messages only as numbers, text and samples: a compromised decoder can return false samples, and
nothing more.
"""

import atexit
import errno
import io
import json
import os
import select
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

from alphamf.audio.decoder.confine import NAMES
from alphamf.audio.file_pieces import DecodingError
from alphamf.errors import AlphaMFError
from alphamf.tools.files import printable, reason

VARIABLE = "ALPHAMF_SANDBOX"

_START = (
    "import sys; sys.path.extend(sys.argv[1:]); "
    "from alphamf.audio.decoder.server import main; main()"
)
_CONTROL = 3
"""Descriptor of the helper's connection, in the helper."""

_KEPT = ("LD_", "DYLD_", "PYTHONHOME")
"""Prefixes of the environment variables that Python may need to find its libraries."""

_lock = threading.Lock()
_control: socket.socket | None = None
_number = 0
_layers: int | None = None


def is_enabled() -> bool:
    """Return whether recordings are decoded in confined processes; refuse a wrong `VARIABLE`."""
    value = os.environ.get(VARIABLE, "on")
    if value not in ("", "on", "off"):
        raise AlphaMFError(f"{VARIABLE} must be on or off, not {value!r}")
    return value != "off" and sys.platform == "linux" and bool(sys.executable) and _layers != 0


def record(layers: int) -> bool:
    """Store what confines a decoder; return False if nothing does, which turns the sandbox off."""
    global _layers
    _layers = layers
    return layers != 0


def state() -> str:
    """Describe in a few words what confines the decoders, after a recording was read."""
    if os.environ.get(VARIABLE) == "off":
        return f"off (`no_sandbox`, or {VARIABLE})"
    found = " and ".join(name for bit, name in NAMES.items() if (_layers or 0) & bit)
    return found or "none: this system has neither seccomp nor Landlock"


def prepare() -> None:
    """Start the helper, which loads what decoders need while this process does other things."""
    with suppress(AlphaMFError, OSError):  # the first decoder reports it
        if is_enabled():
            _connected()


def request(data: bytes, descriptors: list[int]) -> None:
    """Ask the helper to fork a decoder for a request in JSON, with open descriptors."""
    if sys.platform == "win32":
        raise OSError
    control = _connected()
    try:
        socket.send_fds(control, [data], descriptors)
    except (BrokenPipeError, ConnectionResetError):  # it was killed
        _disconnect(control)
        socket.send_fds(_connected(), [data], descriptors)


def _connected() -> socket.socket:
    """Return the connection to the helper, which is started if needed."""
    if sys.platform == "win32":  # where `is_enabled` says no
        raise OSError
    global _control, _number
    with _lock:
        if _control is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                try:
                    _number = _spawn(theirs)
                except BaseException:
                    ours.close()
                    raise
            _control = ours
        return _control


def _python() -> str:
    """Return a Python interpreter's path, or raise a FileNotFoundError, as in a frozen program."""
    places = sys.executable, os.path.join(sys.exec_prefix, "bin", "python3")
    for place in places if not getattr(sys, "frozen", False) else ():
        if "py" in os.path.basename(place).lower() and os.access(place, os.X_OK):
            return place
    raise FileNotFoundError(errno.ENOENT, "there is no Python interpreter beside this program")


def _spawn(theirs: socket.socket) -> int:
    """Start the helper, with only `_KEPT` of the environment, and return its process number."""
    if sys.platform == "win32":
        raise OSError
    python = _python()
    here = ""
    with suppress(OSError):  # the current directory was deleted
        here = os.getcwd()
    places = [place for place in sys.path if os.path.isabs(place) and place != here]
    nowhere = [(os.POSIX_SPAWN_OPEN, n, os.devnull, os.O_RDWR, 0) for n in range(3)]
    kept = {name: value for name, value in os.environ.items() if name.startswith(_KEPT)}
    return os.posix_spawn(
        python,
        [python, "-P", "-c", _START, *places],
        {**kept, "OPENBLAS_NUM_THREADS": "1"},
        file_actions=[(os.POSIX_SPAWN_DUP2, theirs.fileno(), _CONTROL), *nowhere],
        setsigmask=[signal.SIGINT],
    )


@atexit.register
def _disconnect(broken: socket.socket | None = None) -> None:
    """Close the connection to the helper, which then ends; with `broken`, only that connection."""
    global _control
    with _lock:
        if _control is None or broken not in (None, _control):
            return
        _control.close()
        _control = None
        if sys.platform != "win32":
            with suppress(ChildProcessError):  # another process started it, or waits for all
                if os.waitpid(_number, os.WNOHANG) == (0, 0):  # a fork may keep it connected
                    os.kill(_number, signal.SIGKILL)
                    os.waitpid(_number, 0)


_HEADER = struct.Struct("=cQ")

READ, READ_WIDE, ENDING = b"f", b"d", b"e"
"""Requests to a decoder: read samples in single or double precision, and say what is known at the
end. Each comes with a number of samples."""

FLOATS, INTEGERS, FINISH = b"F", b"I", b"."
"""Requests to a process that writes a file: append float32 or int32 samples, or finish it."""

DONE, REFUSED, UNDECODABLE, INVALID, MEMORY = b"=", b"!", b"?", b"v", b"m"
"""Answers: the result; the message of an AlphaMFError, a DecodingError or a ValueError; and that
there is not enough memory."""

Wait = Callable[[bool], None]
"""Function that returns when a channel can be written to (given True) or read from (False)."""


def send(
    channel: io.FileIO,
    kind: bytes,
    data: Any = b"",
    *,
    number: int | None = None,
    wait: Wait | None = None,
) -> None:
    """Send a message; its header has `number`, or the number of bytes of `data`."""
    view = memoryview(data)
    length = view.nbytes if number is None else number
    for part in (memoryview(_HEADER.pack(kind, length)), view.cast("B") if view.nbytes else view):
        left = part
        while left.nbytes:
            try:
                count: int | None = channel.write(left)
            except ConnectionError as error:
                raise EOFError from error
            if count is None and wait is not None:
                wait(True)
            left = left[count or 0 :]


def header(channel: io.FileIO, wait: Wait | None = None) -> tuple[bytes, int]:
    """Return the kind and the number of the next message."""
    data = bytearray(_HEADER.size)
    fill(channel, memoryview(data), wait)
    kind, number = _HEADER.unpack(data)
    return kind, number


def fill(channel: io.FileIO, into: memoryview, wait: Wait | None = None) -> None:
    """Receive as many bytes as a buffer holds; raise an EOFError if the channel ends first."""
    while into.nbytes:
        try:
            count: int | None = channel.readinto(into)
        except ConnectionError as error:
            raise EOFError from error
        if count is None and wait is not None:
            wait(False)
        elif not count:
            raise EOFError
        into = into[count or 0 :]


_FACTS, _SENTENCE = 1 << 16, 1 << 13
"""Maximum number of bytes of the facts about a file, and of a sentence about it."""

STARTED = struct.Struct("=BI")
"""Format of the first answer: what confines the process, and the number of the process."""

PATIENCE = 30.0
"""Seconds of processor time that a process may take for an answer; a file's size adds to them."""

BYTES_PER_SECOND = 200_000
"""Bytes of the file that add a second to `PATIENCE`; decoders take 0.1 s or less for so many."""

_ELAPSED = 10
"""Maximum elapsed seconds per allowed second of processor time, on a busy machine."""

_TICK = 1.0
"""Seconds between checks of the clocks. Time in which this process is stopped does not count."""


class NoSandboxError(Exception):
    """Error for a system that cannot confine processes; nothing was decoded."""


class ConfinedProcess:
    """A confined process that works on a file; `close` kills it."""

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
        if not record(layers):
            self.close()
            raise NoSandboxError

    def _started(self, asked: dict[str, Any], descriptors: list[int]) -> int:
        """Start the process, again if the helper was killed, and return what confines it."""
        for _ in range(2):
            with suppress(EOFError):  # the helper was killed after it took the request
                return self._start(asked, descriptors)
        raise self._unstarted("it ended immediately")

    def _start(self, asked: dict[str, Any], descriptors: list[int]) -> int:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            file, *others = descriptors
            try:
                request(json.dumps(asked).encode(), [file, theirs.fileno(), *others])
            except OSError as error:
                raise self._unstarted(reason(error)) from error
            ours.setblocking(False)
            self._channel = self._stack.enter_context(io.FileIO(ours.detach(), "r+"))
        started = bytearray(STARTED.size)
        header(self._channel, self._wait)
        fill(self._channel, memoryview(started), self._wait)
        layers, self._number = STARTED.unpack(started)
        if sys.platform == "linux":
            with suppress(OSError):  # it has ended, or the kernel is old
                self._process = os.pidfd_open(self._number)
                self._stack.callback(os.close, self._process)
        return int(layers)

    def close(self) -> None:
        """Kill the process, and close the connection."""
        if sys.platform == "linux" and self._process >= 0:
            with suppress(OSError):
                signal.pidfd_send_signal(self._process, signal.SIGKILL)
            self._process = -1
        self._stack.close()

    def ask(self, kind: bytes, data: Any = b"", *, number: int | None = None) -> int:
        """Send a request, and return the size in bytes of the answer that follows."""
        self._waited, self._used = 0.0, self._processor_time()
        try:
            send(self._channel, kind, data, number=number, wait=self._wait)
        except EOFError:
            raise self.crash_error() from None
        return self.answer()

    def answer(self) -> int:
        """Return the size of the next answer in bytes; raise the error that it reports."""
        try:
            kind, length = header(self._channel, self._wait)
        except EOFError:
            raise self.crash_error() from None
        if kind == DONE:
            return length
        if kind == MEMORY:
            raise MemoryError
        error = _ERRORS.get(kind)
        if error is None:
            raise self.crash_error()
        raise error(printable(self._bytes(length, _SENTENCE).decode("utf-8", "replace")))

    def facts(self, length: int) -> Any:
        """Return the contents of an answer in JSON that has `length` bytes."""
        try:
            return json.loads(self._bytes(length, _FACTS))
        except (ValueError, RecursionError):
            raise self.crash_error() from None

    def fill(self, into: memoryview) -> None:
        """Receive bytes of an answer until the buffer is full."""
        try:
            fill(self._channel, into, self._wait)
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
        """Wait until the channel can be used; raise an AlphaMFError if this takes too long."""
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


_ERRORS = {REFUSED: AlphaMFError, UNDECODABLE: DecodingError, INVALID: ValueError}
