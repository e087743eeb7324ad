"""A short recording waits for no import that it does not need."""

import subprocess
import sys

import pytest
import typer

from tests.support.commands import QUICK

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
    import numpy as np
    import soundfile

    sound = 0.1 * np.random.default_rng(0).standard_normal(rate // 2)
    soundfile.write(tmp_path / "in.wav", sound, rate)
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
