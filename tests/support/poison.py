"""A stranger's working directory, which records what a command imports and opens in it."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import NamedTuple

from tests.support.places import ROOT

PROGRAM = """
from alphamf.cli.start import main

if __name__ == "__main__":
    main()
"""

POISON = """
import os, sys
with open(os.environ["POISONED"], "a") as log:
    log.write(__name__ + " imported by " + " ".join(sys.orig_argv) + "\\n")
raise ImportError(__name__ + " comes from the working directory")
"""

SETTINGS = {
    ".numba_config.yaml": "cache_dir: .\ndisable_jit: 1\n",
    "matplotlibrc": "figure.dpi: 9e9\nbackend: nonsense\n",
    "arvizrc": "nonsense: [",
    ".env": "PYTHONPATH=.",
    "setup.cfg": "[",
    "pyproject.toml": "[",
}
"""Files that some library or another takes its settings from."""

TRACER = """
import os, sys, threading

inside = threading.local()


def trace(event, arguments):
    if event not in ("open", "os.listdir", "os.scandir") or getattr(inside, "log", False):
        return
    inside.log = True
    try:
        path = os.fsdecode(arguments[0]) if isinstance(arguments[0], (bytes, str)) else "/"
        # What is removed by its folder's descriptor is not in the working directory.
        if not os.path.isabs(path) and os.path.lexists(path):
            with open(os.environ["TRACED"], "a") as log:
                log.write(path + "\\n")
    finally:
        inside.log = False


sys.addaudithook(trace)
"""


class Traces(NamedTuple):
    """What a command did in its working directory.

    Attributes
    ----------
    imported
        A line for each module of the directory that was imported.
    opened
        Relative paths of the files in it that were opened.
    """

    imported: list[str]
    opened: set[str]


def poison(folder: Path) -> None:
    """Put a module of every name that Python and our dependencies import into a folder."""
    names = {*sys.stdlib_module_names, *packages_distributions(), "alphamf", "cli", "models"}
    for name in {*names, "usercustomize"} - {"sitecustomize"}:
        if name.isidentifier():
            (folder / f"{name}.py").write_text(POISON)
    for name in ("multiprocessing", "alphamf", "numpy", "soundfile", "encodings"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(POISON)
    for name, text in SETTINGS.items():
        (folder / name).write_text(text)


class Stranger:
    """A poisoned working directory, in which commands run as an installed program does.

    Parameters
    ----------
    folder
        Where to make it, and what is needed beside it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "strangers"
        self.folder.mkdir()
        poison(self.folder)
        self._logs = folder / "imported", folder / "opened"
        for log in self._logs:
            log.touch()
        (folder / "tracer").mkdir()
        (folder / "tracer" / "sitecustomize.py").write_text(TRACER)
        self._program = folder / "program.py"
        self._program.write_text(PROGRAM)
        self.environment = {
            **{name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"},
            "PYTHONPATH": os.pathsep.join([str(folder / "tracer"), str(ROOT)]),
            "POISONED": str(self._logs[0]),
            "TRACED": str(self._logs[1]),
            "XDG_CACHE_HOME": str(folder / "cache"),
        }

    def start(self, *words: str, flags: tuple[str, ...] = (), **options) -> subprocess.Popen:
        """Start a command in the directory."""
        return subprocess.Popen(
            [sys.executable, *flags, str(self._program), *words],
            cwd=self.folder, env=self.environment, text=True, **options,
        )  # fmt: skip

    def run(self, *words: str, flags: tuple[str, ...] = ()) -> subprocess.CompletedProcess:
        """Run a command in the directory."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with self.start(*words, flags=flags, **pipes) as process:
            output, error = process.communicate(timeout=300)
        return subprocess.CompletedProcess(words, process.returncode, output, error)

    def traces(self) -> Traces:
        """Return what commands did in the directory so far."""
        imported, opened = (log.read_text().splitlines() for log in self._logs)
        return Traces(imported, {path for path in opened if not path.startswith(os.pardir)})
