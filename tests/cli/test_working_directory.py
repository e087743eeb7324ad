"""A working directory may be a stranger's: nothing in it is run, nor taken for settings."""

import ast
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import packages_distributions
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.support.commands import QUICK, every_command, until
from tests.support.places import DATA, ROOT

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
    """A poisoned working directory, in which commands run as an installed program does."""

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

    def traces(self) -> tuple[list[str], set[str]]:
        """Return what was imported from the directory, and the paths in it that were opened."""
        imported, opened = (log.read_text().splitlines() for log in self._logs)
        return imported, {path for path in opened if not path.startswith(os.pardir)}


COMMANDS = {
    **every_command(),
    "low": "denoise in/0.wav --latency low".split(),
    "outputs": ["denoise", "in/0.wav", "--plot", "b.png", "--vad", "b.csv", "--json", *QUICK],
    "cluster": ["denoise", "in/0.wav", "in/1.wav", "--cluster", "local", *QUICK],
    "experiment": "experiment normal-1d --jobs 2 --output tables".split(),
    "live": ["live", "--list-devices"],
}


@pytest.fixture
def stranger(tmp_path):
    made = Stranger(tmp_path)
    (made.folder / "in").mkdir()
    for k, sample in enumerate(("clean", "noisy")):
        shutil.copy(DATA / f"sample-{sample}.wav", made.folder / f"in/{k}.wav")
    (made.folder / "in/p.csv").write_text("clean,noisy\n0.wav,1.wav\n")
    return made


def check(stranger: Stranger, words: list[str]) -> None:
    """Check that a command imported and opened nothing that its words do not name."""
    imported, opened = stranger.traces()
    assert imported == []
    named = {"in", *map(os.path.normpath, words)}
    others = {path for path in opened if not named & {path, *map(str, Path(path).parents)}}
    assert others <= {"."}  # to flush new names


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n == "denoise" else pytest.mark.slow) for n in COMMANDS]
)
def test_commands_run_nothing_of_the_working_directory(stranger, name):
    done = stranger.run(*COMMANDS[name])
    assert "Traceback" not in done.stderr
    assert name == "live" or done.returncode == 0, done.stderr  # it may find no sound system
    check(stranger, COMMANDS[name])


@pytest.mark.slow
def test_the_page_runs_nothing_of_the_working_directory(stranger, tmp_path):
    pytest.importorskip("uvicorn", reason="the extra web is not installed")
    with (
        (tmp_path / "log").open("w+") as log,
        stranger.start("serve", "--no-browser", "--port", "0", stderr=log) as server,
    ):
        try:
            until(lambda: "Ctrl-C" in Path(log.name).read_text())
            page = next(w for w in Path(log.name).read_text().split() if w.startswith("http"))
            sound = (DATA / "sample-noisy.wav").read_bytes()
            kind = {"Content-Type": "audio/wav"}
            recordings = f"{page}api/recordings"
            with urlopen(Request(f"{recordings}?name=a.wav&preset=fast", sound, kind)) as answer:
                key = json.load(answer)["id"]

            def is_done() -> bool:
                with urlopen(f"{recordings}/{key}") as answer:
                    return json.load(answer)["state"] == "done"

            until(is_done)
        finally:
            server.send_signal(signal.SIGINT)
            with suppress(Exception):
                server.wait(30)
    assert "Traceback" not in Path(log.name).read_text()
    check(stranger, [])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there the flag cannot be added")
def test_a_python_without_environment_is_as_safe(stranger):
    # As in the first line of some distributions' programs; PYTHONSAFEPATH means nothing to it.
    program = stranger.folder.parent / "program.py"
    program.write_text(f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n" + program.read_text())
    done = stranger.run(*COMMANDS["denoise"], flags=("-E",))
    assert done.returncode == 0, done.stderr
    assert stranger.traces()[0] == []


def test_libraries_that_read_the_working_directory_are_imported_in_one_place():
    readers = {"librosa", "matplotlib", "numba"}
    others = {}
    for path in [*(ROOT / "alphamf").rglob("*.py"), *(ROOT / "cli").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            if readers & {name.partition(".")[0] for name in names}:
                others[str(path)] = node.lineno
    assert others == {}
