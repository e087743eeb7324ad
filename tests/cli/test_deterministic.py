"""``--deterministic``: one code path for all processors with AVX2, and the record of it."""

import json
import os
import platform
import subprocess
import sys

import pytest

from alphamf.cli import deterministic
from alphamf.errors import AlphaMFError
from tests.support.commands import COMMAND, QUICK, run, sound
from tests.support.commands import in_a_process as alphamf

x86 = pytest.mark.skipif(
    platform.machine() != "x86_64" or os.name != "posix", reason="for x86-64 processors"
)
PATHS = [
    {"OPENBLAS_CORETYPE": "Nehalem"},
    {"OPENBLAS_CORETYPE": "Prescott", "OPENBLAS_NUM_THREADS": "2"},
    {"ALPHAMF_LOOPS": "default"},
    {"NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_SKX AVX512F"},
    {"GLIBC_TUNABLES": "glibc.malloc.check=0:glibc.cpu.hwcaps=-AVX2,-FMA"},
]
"""Environments that change the code paths as another processor would."""


def test_a_record_names_processor_code_paths_and_versions(here):
    line = run("denoise", "in/0.wav", "--json", *QUICK).stdout
    found = json.loads(line)["environment"]
    assert found["cpu"] and found["loops"] in ("v4", "v3", "unfused", "default", "numpy")
    assert found["networks"] in ("amx", "bf16", found["loops"])
    assert found["blas"] and all(blas["version"] for blas in found["blas"])
    assert set(found["packages"]) == {"numpy", "scipy", "soxr", "soundfile"}
    assert all(found["packages"].values()) and found["libsndfile"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--device cuda", "works on the CPU only, not with --device cuda"),
        ("--device auto", "works on the CPU only, not with --device auto"),
        ("--cluster tcp://node0:8786", "works on this machine only, not with --cluster"),
    ],
)
def test_work_that_is_done_elsewhere_is_refused(here, options, sentence):
    refused = run("denoise", "in/0.wav", "--deterministic", *options.split(), code=2)
    assert refused.stderr == f"Error: --deterministic {sentence}\n"


def test_other_processors_are_refused(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    with pytest.raises(AlphaMFError, match="on an x86-64 processor, not "):
        deterministic.restart_with_fixed_paths()


@x86
def test_it_starts_anew_before_it_imports_the_command_line(tmp_path):
    start = "from alphamf.cli.start import main; main()"
    command = [sys.executable, "-X", "importtime", "-c", start]
    command += ["denoise", "absent.wav", "--deterministic"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "absent.wav does not exist" in done.stderr
    imported = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines()]
    assert (imported.count("typer"), imported.count("alphamf.cli.start")) == (1, 2)


@pytest.fixture
def variables(monkeypatch):
    """Call the check; return the variables with which it starts anew, or None."""

    def start(program, arguments, found):
        assert program == sys.executable and arguments[1:] == sys.orig_argv[1:]
        monkeypatch.setattr(os, "environ", found)
        raise InterruptedError

    def check():
        try:
            deterministic.restart_with_fixed_paths()
        except InterruptedError:  # in place of another process
            return os.environ
        return None

    monkeypatch.setattr(os, "execve", start)
    return check


def features(*found):
    return lambda mode: {"SIMD Extensions": {"baseline": ["X86_V2"], "found": list(found)}}


@x86
def test_the_command_starts_anew_once(monkeypatch, variables):
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.malloc.check=0:glibc.cpu.hwcaps=-AVX2,-FMA")
    monkeypatch.setenv("NPY_DISABLE_CPU_FEATURES", "AVX2 X86_V3 VSX")
    found = variables()
    assert found["GLIBC_TUNABLES"] == "glibc.malloc.check=0"
    disabled = found["NPY_DISABLE_CPU_FEATURES"].split()
    assert {"VSX", "AVX512F"} < set(disabled) and not {"AVX2", "X86_V3"} & set(disabled)
    assert found.items() >= deterministic.FIXED.items()


@x86
def test_features_that_are_not_known_are_disabled_too_and_avx2_is_needed(monkeypatch, variables):
    assert variables()
    monkeypatch.setattr("numpy.show_config", features("X86_V3", "X86_V5"))
    assert "X86_V5" in variables()["NPY_DISABLE_CPU_FEATURES"].split()
    monkeypatch.setattr("numpy.show_config", features("X86_V3"))
    assert variables() is None
    monkeypatch.setattr("numpy.show_config", features())
    with pytest.raises(AlphaMFError, match="needs a processor with AVX2 and FMA, which this one"):
        variables()


def test_an_unknown_copy_of_the_loops_is_refused(monkeypatch):
    monkeypatch.setenv("ALPHAMF_LOOPS", "fast")
    assert "ALPHAMF_LOOPS must be" in run("models", code=2).stderr


@x86
@pytest.mark.slow
def test_the_same_bytes_on_every_code_path(tmp_path):
    source = sound(tmp_path / "x.wav", 1.0, subtype="FLOAT")
    without, fixed = set(), set()
    for k, path in enumerate([{}, *PATHS]):
        for option, found in ([], without), (["--deterministic"], fixed):
            result = alphamf(tmp_path, "denoise", "x.wav", "-o", f"{k}{len(option)}.wav", *QUICK,
                             "--json", *option, env={**os.environ, **path})  # fmt: skip
            assert not result.returncode, result.stderr
            found.add((tmp_path / f"{k}{len(option)}.wav").read_bytes())
    assert len(fixed) == 1
    assert len(without) >= 2  # so that the test would see a difference
    piped = subprocess.run([*COMMAND, "denoise", "-", "-o", "-", *QUICK, "--deterministic"],
                           input=source.read_bytes(), capture_output=True, check=True)  # fmt: skip
    assert piped.stdout in fixed
