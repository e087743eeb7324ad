"""The record of a run suffices to repeat it, on any processor; and no run uses the network."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from alphamf.cli import deterministic
from alphamf.errors import AlphaMFError
from tests.support import claps
from tests.support.commands import COMMAND, QUICK, contents, run, sound
from tests.support.commands import in_a_process as alphamf


def options_of(record: dict) -> list[object]:
    """Return the options that a JSON record of ``alphamf denoise`` speaks of."""
    found = ["--preset", record["preset"], "--model", record["model"], "--seed", record["seed"]]
    for name in ("sampler", "steps", "chains", "max_attenuation"):
        if record["settings"][name] is not None:
            found += [f"--{name.replace('_', '-')}", record["settings"][name]]
    return [*found, "--strength", round(1 - record["settings"]["dry"], 9)]


@pytest.mark.slow
def test_a_run_can_be_repeated_from_its_record_at_any_number_of_jobs(here):
    for k, (suffix, subtype) in enumerate([("wav", "FLOAT"), ("ogg", None), ("flac", None)]):
        sound(f"in/{k}x.{suffix}", seed=k, subtype=subtype)
    claps.make(Path("in/y.mkv"), "matroska", claps.Sound(rate=8000))
    asked = ["--preset", "plain", "--steps", 9, "--chains", 2, "--seed", 5, "--strength", 0.9]
    lines = run("denoise", "in", "--output-dir", "out", *asked, "--json", "--jobs", 1).stdout
    records = [json.loads(line) for line in lines.splitlines()]
    assert len(records) == 7
    for record in records:
        assert record["version"] and len(record["model_sha256"]) == 64
        assert record["model"] == "speech-8k"
    run("denoise", "in", "--output-dir", "again", *options_of(records[0]), "--jobs", 3)
    assert contents() == contents("again")


@pytest.mark.slow
def test_a_dictionary_for_wider_sound_is_noted(here):
    line = run("denoise", "in/0.wav", "--model", "speech-16k", "--json", *QUICK).stdout
    assert "speech-16k is for sound at 16000 Hz" in json.loads(line)["note"]
    assert json.loads(run("denoise", "in/1.wav", "--json", *QUICK).stdout)["note"] is None
    words = ["evaluate", "--pairs", "in/p.csv", "--jobs", 1, "--method"]
    assert run(*words, "noisy,is-nmf@speech-16k,is-nmf").stderr == (
        "Note: is-nmf@speech-16k: its dictionary is for sound at 16000 Hz or more, so "
        "results at lower rates are poor (1 of 1 clips)\n"
    )
    about = json.loads(Path("evaluation/settings.json").read_text())["methods"]
    assert list(about["is-nmf@speech-16k"]["sha256"]) == ["speech-16k.npz"]
    refused = run(*words, "noisy@speech-8k", code=2).stderr
    assert "names a dictionary, but noisy does not use one" in refused


@pytest.mark.slow
def test_nothing_opens_a_socket(here):
    """But those of files, by which the command's own processes find each other."""
    code = (
        "import sys\n"
        "def hook(event, arguments):\n"
        "    local = event == 'socket.__new__' and arguments[1] == 1\n"
        "    local |= isinstance((*arguments, None, None)[1], (str, bytes))\n"
        "    local |= event == 'socket.sendmsg' and arguments[0].family == 1\n"
        "    if event.startswith('socket.') and not local:\n"
        "        raise SystemExit(f'{event} {arguments}')\n"
        "sys.addaudithook(hook)\n"
        "from typer.testing import CliRunner\n"
        "from alphamf.cli.app import app\n"
        "for line in sys.stdin:\n"
        "    result = CliRunner().invoke(app, line.split())\n"
        "    assert result.exit_code == 0, (result.output, result.exception)\n"
        "try:\n"
        "    import socket; socket.create_connection(('localhost', 9))\n"
        "except SystemExit:\n"
        "    print('reached')\n"
    )
    commands = (
        f"denoise in {' '.join(QUICK)} --json\n"
        "denoise in/0.wav -o x.wav --steps 2 --plot x.png --uncertainty x.npz\n"
        "train in -o m.npz --rank 2 --steps 2\n"
        "evaluate --pairs in/p.csv --method noisy,fast --jobs 1 -q\n"
        "experiment list\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], input=commands, capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout) == (0, "reached\n"), result.stderr


# --deterministic: one code path for all processors with AVX2.

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
