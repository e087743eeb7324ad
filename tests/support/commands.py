"""The command line in a test: in this process, in a terminal, and gone without a trace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from typer.testing import CliRunner

from alphamf.cli.app import app

COMMAND = [sys.executable, "-c", "from alphamf.cli.app import main; main()"]


def run(*arguments: object, code: int = 0, stdin: bytes | None = None):
    """Run the command line in this process and check its exit code."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


class Shown(NamedTuple):
    """What a terminal showed of one stream, and what a pipe took of the other."""

    seen: bytes
    piped: bytes
    code: int


def in_a_terminal(
    *words: str,
    stream: str = "stderr",
    folder: Path | None = None,
    columns: int = 80,
    kind: str = "xterm",
) -> Shown:
    """Run the command line with one of its streams in a terminal and the other in a pipe."""
    import pty

    other = "stdout" if stream == "stderr" else "stderr"
    control, terminal = pty.openpty()
    with subprocess.Popen(
        [*COMMAND, *words], cwd=folder, **{stream: terminal, other: subprocess.PIPE},
        env={**os.environ, "TERM": kind, "COLUMNS": str(columns)},
    ) as process:  # fmt: skip
        os.close(terminal)
        seen = b""
        try:
            while part := os.read(control, 65536):
                seen += part
        except OSError:  # how Linux says that the other side has closed
            pass
        os.close(control)
        piped = getattr(process, other).read()
    return Shown(seen, piped, process.returncode)


def leave(process: subprocess.Popen, patience: float = 20) -> None:
    """Wait until nothing is left of a process and those that it started."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    raise AssertionError("processes were left behind")
