"""Start the process that forks decoders, and describe the sandbox.

The environment variable ``ALPHAMF_SANDBOX``, on unless it is ``off``, decides for commands, for the
library and for all processes that they start; an option of theirs sets it.
"""

from __future__ import annotations

import atexit
import errno
import os
import signal
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from alphamf.audio.decoder.confine import NAMES
from alphamf.errors import AlphaMFError

if TYPE_CHECKING:
    import socket

VARIABLE = "ALPHAMF_SANDBOX"

_START = (
    "import sys; sys.path.extend(sys.argv[1:]); "
    "from alphamf.audio.decoder.server import main; main()"
)
_CONTROL = 3
"""Descriptor of the helper's connection, in the helper."""

_KEPT = ("LD_", "DYLD_", "PYTHONHOME")
"""How the names of variables begin without which Python and its libraries may not be found."""

_lock = threading.Lock()
_control: socket.socket | None = None
_number = 0
_layers: int | None = None


def is_enabled() -> bool:
    """Return whether recordings are decoded in confined processes."""
    value = os.environ.get(VARIABLE, "on")
    if value not in ("", "on", "off"):
        raise AlphaMFError(f"{VARIABLE} must be on or off, not {value!r}")
    return value != "off" and sys.platform == "linux" and bool(sys.executable) and _layers != 0


def record(layers: int) -> bool:
    """Remember what confines a decoder; return False if nothing does: none is used from now on."""
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
    with suppress(AlphaMFError, OSError):  # whoever decodes says so
        if is_enabled():
            _connected()


def request(data: bytes, descriptors: list[int]) -> None:
    """Ask the helper for a decoder."""
    if sys.platform == "win32":
        raise OSError
    import socket

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
    import socket

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
    """Return this Python's program, which an embedding or a frozen program is not."""
    places = sys.executable, os.path.join(sys.exec_prefix, "bin", "python3")
    for place in places if not getattr(sys, "frozen", False) else ():
        if "py" in os.path.basename(place).lower() and os.access(place, os.X_OK):
            return place
    raise FileNotFoundError(errno.ENOENT, "there is no Python interpreter beside this program")


def _spawn(theirs: socket.socket) -> int:
    """Start the helper with nothing of this process's environment, and return its number."""
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
    """Disconnect from the helper, which then ends; from one that has ended, if it is still used."""
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
