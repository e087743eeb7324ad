"""The compiled loops under the address and undefined-behaviour sanitizers, copy by copy."""

import os
import shutil
import subprocess
import sys
import sysconfig

import pytest

from alphamf.factorization import compiled
from tests.support.places import ROOT

SOURCES = {
    "alphamf.factorization._loops": "alphamf/factorization/_loops.c",
    "alphamf.inference._leaps": "alphamf/inference/_leaps.c",
    "alphamf.inference._random": "alphamf/inference/_random.c",
    "alphamf.learnt._network": "alphamf/learnt/_network.c",
}
TESTS = [
    "tests/factorization/test_compiled.py",
    "tests/inference/test_leaps.py",
    "tests/inference/test_random.py",
    "tests/learnt/test_compiled.py",
]
RUN = """
import importlib.util, sys
for name, path in zip(sys.argv[1::2], sys.argv[2::2]):
    spec = importlib.util.spec_from_file_location(name, path)
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])
import pytest
chosen = ["-k", "not without and not every_copy"]
sys.exit(pytest.main(["-q", "-x", "-p", "no:cacheprovider", *chosen, *{tests!r}]))
"""


def library(name: str) -> str | None:
    """Return the sanitizer's library that goes before all others, None where gcc has none."""
    if not shutil.which("gcc"):
        return None
    found = subprocess.run(
        ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
    ).stdout.strip()
    return found if os.path.isabs(found) else None


@pytest.fixture(scope="module")
def instrumented(tmp_path_factory):
    """Build the extensions with both sanitizers, which end the process at the first finding."""
    if not compiled.AVAILABLE or library("libasan.so") is None:
        pytest.skip("no compiler with the address sanitizer")
    folder = tmp_path_factory.mktemp("sanitized")
    found = []
    for name, source in SOURCES.items():
        path = folder / (name.rpartition(".")[2] + sysconfig.get_config_var("EXT_SUFFIX"))
        flags = "-shared -fPIC -O1 -g -fno-math-errno -fsanitize=address,undefined".split()
        include = f"-I{sysconfig.get_path('include')}"
        stop = "-fno-sanitize-recover=undefined"
        subprocess.run(["gcc", *flags, stop, include, str(ROOT / source), "-o", path], check=True)
        found += [name, str(path)]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("copy", ["default", "unfused", "v3", "v4", "bf16", "amx"])
def test_the_loops_read_and_write_nothing_but_their_buffers(instrumented, copy):
    environment = {
        **os.environ,
        "ALPHAMF_LOOPS": copy,
        "LD_PRELOAD": f"{library('libasan.so')} {library('libubsan.so')}",
        "ASAN_OPTIONS": "detect_leaks=0",
    }
    code = RUN.format(tests=TESTS)
    run = subprocess.run(
        [sys.executable, "-c", code, *instrumented],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "processor" in run.stderr:
        pytest.skip(f"this processor lacks what the copy {copy} needs")
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-4000:]
    assert " passed" in run.stdout
