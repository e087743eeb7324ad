"""The command line as a process: start-up, pipes, processes side by side, Ctrl-C, terminals."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import soundfile
import typer

from tests.support.commands import COMMAND, QUICK, in_a_terminal, leave, sound, until
from tests.support.commands import in_a_process as run

posix = pytest.mark.skipif(os.name != "posix", reason="signals and terminals are POSIX")


def test_version(tmp_path):
    import alphamf

    words = f"alphamf {alphamf.__version__}\n".encode()
    assert run(tmp_path, "--version").stdout == words
    module = [sys.executable, "-m", "alphamf", "-V"]
    assert subprocess.run(module, capture_output=True, check=True).stdout == words


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("alphamf den", {"denoise"}),
        ("alphamf denoise --preset f", {"fast"}),
        ("alphamf info --j", {"--json"}),
    ],
)
def test_shells_complete_what_is_typed(tmp_path, words, found):
    typed = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    code = "import sys; sys.argv = ['alphamf']; from alphamf.cli.app import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=False, text=True,
        env={**os.environ, "_ALPHAMF_COMPLETE": "complete_bash", **typed},
    )  # fmt: skip
    assert set(done.stdout.split()) == found, done.stderr


@pytest.mark.slow
def test_a_reader_that_leaves_is_no_crash(tmp_path):
    sound(tmp_path / "a.wav", 3)
    words = [*COMMAND, "denoise", "a.wav", "-o", "-", "--steps", "20"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(words, cwd=tmp_path, **pipes) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


@posix
@pytest.mark.parametrize(
    ("jobs", "number", "code", "group"),
    [
        ("1", signal.SIGINT, 130, True),
        pytest.param("2", signal.SIGINT, 130, True, marks=pytest.mark.slow),
        pytest.param("2", signal.SIGTERM, 143, False, marks=pytest.mark.slow),
    ],
)
def test_a_stop_is_clean_and_leaves_no_half_file(tmp_path, jobs, number, code, group):
    for k in range(3):
        sound(tmp_path / f"{k}.wav", 5)
    process = subprocess.Popen(
        [*COMMAND, "denoise", ".", "--steps", "100000", "--jobs", jobs],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    until(lambda: len(list(tmp_path.glob(".*.part"))) == int(jobs))
    time.sleep(0.3)  # past the imports, which may lose an exception that a signal raises
    # A terminal sends Ctrl-C to the whole group; kill sends a signal to one process.
    (os.killpg if group else os.kill)(process.pid, number)
    try:
        output, errors = process.communicate(timeout=90)
    finally:
        leave(process)
    said = b"Stopped. The same command continues with the files that are left.\n"
    assert (process.returncode, output) == (code, b"")
    assert errors == (said if number == signal.SIGINT else b"")
    assert sorted(os.listdir(tmp_path)) == ["0.wav", "1.wav", "2.wav"]


@posix
@pytest.mark.parametrize(("steps", "count"), [("4", 1), ("1000000", 2)])
def test_ctrl_c_on_a_pipe_finishes_what_was_read_and_a_second_drops_it(tmp_path, steps, count):
    data = sound(tmp_path / "a.wav", 2).read_bytes()
    place = data.index(b"data") + 4  # a recorder does not know the size
    data = data[:place] + b"\xff\xff\xff\xff" + data[place + 4 :]
    os.remove(tmp_path / "a.wav")
    process = subprocess.Popen(
        [*COMMAND, "denoise", "-", "-o", "b.wav",
         "--preset", "fast", "--steps", steps],
        cwd=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.PIPE, stdout=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    with process:  # whose standard input stays open
        process.stdin.write(data)
        process.stdin.flush()
        until(lambda: list(tmp_path.glob(".*.part")))
        time.sleep(0.3)
        for _ in range(count):
            os.killpg(process.pid, signal.SIGINT)
            time.sleep(0.5)
        assert process.wait(90) == (0 if count == 1 else 130)
        shown, errors = process.stdout.read(), process.stderr.read()
    assert errors == b"\nFinishing what was read; Ctrl-C again drops it.\n"
    if count == 1:
        assert b"stopped by Ctrl-C after 2.00 s" in shown
        assert soundfile.info(tmp_path / "b.wav").frames == 16000
    assert os.listdir(tmp_path) == (["b.wav"] if count == 1 else [])


@pytest.mark.slow
@posix
@pytest.mark.parametrize("extra", [[], ["--quiet"]])
def test_progress_is_shown_in_a_terminal_unless_quiet(tmp_path, extra):
    for k in range(2):
        sound(tmp_path / f"{k}.wav", 15)  # long enough for its bar to be drawn
    words = ["denoise", ".", "--steps", "60", "--jobs", "1", "--json", *extra]
    seen, piped, code = in_a_terminal(*words, folder=tmp_path)
    assert code == 0
    assert [json.loads(line)["file"] for line in piped.splitlines()] == ["./0.wav", "./1.wav"]
    assert (b"0.wav" in seen and b"of 15 s" in seen) == bool(seen) == (not extra)


def test_ctrl_c_while_the_command_line_is_imported_leaves_no_traceback():
    code = (
        "import builtins, os, signal\n"
        "def interrupted(name, *arguments, real=builtins.__import__, **options):\n"
        "    if name == 'typer':\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    return real(name, *arguments, **options)\n"
        "builtins.__import__ = interrupted\n"
        "from alphamf.cli.start import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")


@pytest.mark.parametrize("moment", ["report.prepare", "end_on_signals", "app"])
def test_ctrl_c_before_a_command_has_begun_is_no_traceback(moment):
    code = (
        "from alphamf.cli import app\n"
        "def stop(): raise KeyboardInterrupt\n"
        f"app.{moment} = stop\n"
        "app.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


# A short recording waits for no import that it does not need.

SCRIPT = """
import sys
from alphamf.cli.app import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print(*sorted(sys.modules), file=sys.stderr)
"""

UNUSED = set(
    "arviz_stats concurrent.futures.process dask distributed importlib.metadata jinja2 librosa "
    "matplotlib multiprocessing pydantic pystoi rich scipy threadpoolctl alphamf.scores.score "
    "alphamf.inference.samplers.sgnphmc alphamf.inference.samplers.richardson alphamf.research "
    "alphamf.training".split()
)
"""What `alphamf denoise` of a file in PCM at the models' rate does not use."""

if tuple(map(int, typer.__version__.split(".")[:2])) >= (0, 29):  # which imports pydantic itself
    UNUSED -= {"pydantic", "importlib.metadata"}


def modules(*arguments: str) -> set[str]:
    """Return the modules that a command has imported."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("rate", [8000, 16000])
def test_denoise_imports_only_what_it_uses(tmp_path, rate):
    noise = 0.1 * np.random.default_rng(0).standard_normal(rate // 2)
    soundfile.write(tmp_path / "in.wav", noise, rate)
    made = tmp_path / "out.wav"
    found = modules("denoise", str(tmp_path / "in.wav"), "-o", str(made), "-q", *QUICK)
    assert made.exists() and "soundfile" in found
    assert not found & UNUSED


@pytest.mark.parametrize(
    "words",
    ["--help", "--version", "denoise --help", "evaluate --help", "experiment --help"],
)
def test_help_imports_nothing_heavy(words):
    heavy = {"numpy", "scipy", "librosa", "soundfile", "matplotlib", "cupy"}
    assert not modules(*words.split()) & heavy


def test_one_thread_is_asked_for_before_numpy_starts(monkeypatch):
    code = (
        "import os, sys\n"
        "from alphamf.cli.app import app\n"
        "assert 'numpy' not in sys.modules\n"
        "app(['models'], standalone_mode=False)\n"
        "print([os.environ[f'{n}_NUM_THREADS'] for n in ('OPENBLAS', 'OMP', 'MKL')])"
    )
    for name in ("OPENBLAS", "MKL"):
        monkeypatch.delenv(f"{name}_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    )
    assert result.stdout.splitlines()[-1] == "['1', '3', '1']"
