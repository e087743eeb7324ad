"""The engine as a C library: the example of its page, and what each build exports."""

import re
import shutil
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
import soundfile

from alphamf import Stream
from benchmarks import library
from benchmarks.engine_constants import HEADER, header
from tests.support.places import DATA, ROOT
from tests.support.twin import constants

EXAMPLE = ROOT / "docs" / "library" / "denoise.c"


def test_functions_are_those_of_the_header():
    found = library.functions()
    assert {"alphamf_create", "alphamf_process", "alphamf_destroy"} < found and len(found) == 15


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """Compile the example with the system's compiler, and write the weights."""
    if not shutil.which("cc"):
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("library")
    program = folder / "denoise"
    words = ["cc", "-O2", f"-I{library.NATIVE}", EXAMPLE, *library.SOURCES, "-lm", "-o", program]
    subprocess.run(words, check=True)
    return program, *library.write_weights(folder)


RUNNERS = {"windows-x86_64": "wine", "musl-x86_64": "env", "musl-aarch64": "qemu-aarch64"}
"""Targets whose programs run here by a command, where that is installed."""


@pytest.mark.slow
@pytest.mark.parametrize("target", [None, *RUNNERS])
def test_the_example_gives_what_a_stream_gives(example, tmp_path, target):
    program, _, weights = example
    command = [program]
    if target:
        pytest.importorskip("ziglang")
        library.build(target, tmp_path / "built")
        runner = shutil.which(RUNNERS[target])
        if not runner:
            pytest.skip(f"needs {RUNNERS[target]} to run")
        command = [runner, tmp_path / "denoise.exe"]
        zig = sys.executable, "-m", "ziglang", "cc", "-target", library.TARGETS[target].zig
        words = "-I", tmp_path / "built/include", EXAMPLE, tmp_path / "built/lib/libalphamf.a"
        subprocess.run([*zig, *words, "-o", command[1]], check=True)
    audio, rate = soundfile.read(DATA / "sample-noisy.wav", dtype="float32")
    audio = np.stack([audio, np.roll(audio, 100)], axis=1)[:rate]
    soundfile.write(tmp_path / "in.wav", audio, rate, subtype="PCM_16")
    subprocess.run([*command, weights, "in.wav", "out.wav"], cwd=tmp_path, check=True)
    found, again = soundfile.read(tmp_path / "out.wav", dtype="float32")
    stream = Stream(rate, 2, latency="low")
    heard = soundfile.read(tmp_path / "in.wav", dtype="float32")[0]
    wanted = np.concatenate([stream.process(heard), stream.flush()])
    assert again == rate and np.abs(found - wanted).max() < 1e-3
    assert np.sum((found - wanted) ** 2) < 1e-7 * np.sum(wanted**2)  # 16 bits: 83 dB


@pytest.mark.slow
def test_what_the_example_cannot_read_ends_in_one_sentence(example, tmp_path):
    program, _, weights = example
    soundfile.write(tmp_path / "in.wav", np.zeros(4000), 16000, subtype="PCM_16")
    (tmp_path / "cut").write_bytes(weights.read_bytes()[:-64])
    for words in ([weights, weights], [tmp_path / "cut", "in.wav"], ["missing", "in.wav"]):
        run = [program, *words, "out.wav"]
        done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 2 and len(done.stderr.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.skipif(not find_spec("ziglang"), reason="needs ziglang")
@pytest.mark.parametrize("target", sorted(library.TARGETS.keys() - RUNNERS))
def test_a_library_exports_what_the_header_has(target, tmp_path):
    """`build` raises otherwise."""
    assert library.build(target, tmp_path / target).stat().st_size > 50_000


# Constants ---------------------------------------------------------------------------------------


NATIVE = ROOT / "alphamf" / "native"


def test_the_shared_header_is_the_one_that_is_made():
    made = "run python -m benchmarks.engine_constants"
    assert HEADER.read_text(encoding="utf-8") == header(), made


def test_every_constant_is_used_in_c():
    """By the engine, or by the loops that it shares with the whole package."""
    code = "".join(path.read_text(encoding="utf-8") for path in NATIVE.glob("*.[ch]"))
    unused = [name for name in vars(constants.C) if len(re.findall(rf"\b{name}\b", code)) < 2]
    assert not unused
