"""Ways to run the command line in a test: in this process, in its own, in a terminal."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile
from typer.testing import CliRunner

from alphamf.cli.app import app

COMMAND = [sys.executable, "-c", "from alphamf.cli.app import main; main()"]

QUICK = ["--preset", "fast", "--steps", "4", "--jobs", "1"]
"""Options of ``denoise`` for a short chain in one process."""

_WORDS = {
    "denoise": ["denoise", "{0}/0.wav", "-o", "{1}/x.wav", *QUICK],
    "denoise --jobs": ["denoise", "{0}", "--output-dir", "{1}/out", *QUICK[:-1], "2"],
    "info": ["info", "{0}/0.wav"],
    "train": ["train", "{0}", "-o", "{1}/m.npz", "--rank", "2", "--steps", "2"],
    "mix": ["mix", "{0}/0.wav", "--noise", "{0}/1.wav", "-o", "{1}/corpus", "--snr", "5"],
    "evaluate": [
        *["evaluate", "--pairs", "{0}/p.csv", "--method", "noisy"],
        *["-o", "{1}/results", "--jobs", "1"],
    ],
    "models": ["models"],
}


def every_command(recordings: str = "in", outputs: str = ".") -> dict[str, list[str]]:
    """Return words for each command that reads or writes files, for the folder of `here`."""
    return {
        name: [word.format(recordings, outputs) for word in words] for name, words in _WORDS.items()
    }


def run(*arguments: object, code: int = 0, stdin: bytes | None = None):
    """Run the command line in this process and check its exit code."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def in_a_process(folder: Path, *arguments: str, **options) -> subprocess.CompletedProcess:
    """Run the command line in a process of its own, in a folder."""
    return subprocess.run(
        [*COMMAND, *arguments], cwd=folder, capture_output=True, check=False, timeout=180, **options
    )


class Shown(NamedTuple):
    """Output of a run with one stream in a terminal and the other in a pipe, and its exit code."""

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


def until(condition: Callable[[], object], patience: float = 90) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def leave(process: subprocess.Popen, patience: float = 60) -> None:
    """Wait until a process and its children have ended."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    raise AssertionError("processes were left behind")


def sound(
    path: Path | str, seconds: float = 0.3, seed: int = 0, subtype: str | None = None
) -> Path | str:
    """Write noise at 8 kHz."""
    rng = np.random.default_rng(seed)
    # soundfile fails on names that are not valid Unicode, unless they are bytes.
    soundfile.write(
        os.fsencode(path), 0.1 * rng.standard_normal(int(8000 * seconds)), 8000, subtype
    )
    return path


def contents(folder: str = "out") -> dict[str, bytes]:
    """Return the files of a folder by name."""
    return {name: Path(folder, name).read_bytes() for name in sorted(os.listdir(folder))}
