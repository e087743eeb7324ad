"""Read single key presses from the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def read_keys() -> Iterator[Callable[[], str] | None]:
    """Yield a function that returns the keys pressed since its last call.

    It is None if standard input is not a terminal, or if this process is in the background.
    """
    if sys.stdin is None or not sys.stdin.isatty():
        yield None
    elif sys.platform == "win32":
        yield _of_windows
    else:
        with _of_posix() as read:
            yield read


def _of_windows() -> str:
    import msvcrt

    found = ""
    while msvcrt.kbhit():  # type: ignore[attr-defined, unused-ignore]
        found += msvcrt.getwch()  # type: ignore[attr-defined, unused-ignore]
    return found


@contextmanager
def _of_posix() -> Iterator[Callable[[], str] | None]:
    if sys.platform == "win32":
        raise NotImplementedError
    import os
    import select
    import termios
    import tty

    number = sys.stdin.fileno()
    with suppress(OSError):  # another terminal than that of the session
        if os.tcgetpgrp(number) != os.getpgrp():  # changing it would stop this process
            yield None
            return

    def read() -> str:
        found = b""
        while select.select([number], [], [], 0)[0] and (data := os.read(number, 64)):
            found += data
        return found.decode(errors="ignore")

    before = termios.tcgetattr(number)
    tty.setcbreak(number)
    try:
        yield read
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)
