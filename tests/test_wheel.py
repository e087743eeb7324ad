"""The wheel: one for all versions of Python, the same bytes again, with a compiler and without."""

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.support.places import DATA, checkout

pytest.importorskip("setuptools")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="names and audits are those of Linux"),
]

EXTENSIONS = [
    "alphamf/factorization/_loops.abi3.so",
    "alphamf/inference/_leaps.abi3.so",
    "alphamf/inference/_random.abi3.so",
    "alphamf/learnt/_network.abi3.so",
    "alphamf/native/_engine.abi3.so",
]
LARGEST = 36e6
"""Bytes of a wheel: the models, and little else."""

LOADED = """
from alphamf.factorization import compiled
print(compiled.__file__, compiled.AVAILABLE)
"""


def built(folder: Path, **variables: str) -> Path:
    """Build a wheel in a new copy of the repository."""
    checkout(folder)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    subprocess.run(
        [*command, "--no-build-isolation", "--wheel-dir", "wheels", "."],
        cwd=folder, check=True, env={**os.environ, **variables}, capture_output=True,
    )  # fmt: skip
    (wheel,) = (folder / "wheels").iterdir()
    return wheel


def installed(wheel: Path, folder: Path) -> Path:
    """Install a wheel in a new environment, beside its dependencies, and return the programs."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = (folder / "lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = folder / "bin" / "python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps",
         "--ignore-installed", wheel],
        check=True,
    )  # fmt: skip
    return folder / "bin"


def cleaned(programs: Path, folder: Path) -> str:
    """Denoise the sample by an installed program, and return what it says of its loops."""
    sound = folder / "cleaned.wav"
    subprocess.run(
        [programs / "alphamf", "denoise", DATA / "sample-noisy.wav", "-o", sound],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    assert sound.stat().st_size == (DATA / "sample-noisy.wav").stat().st_size
    done = subprocess.run(
        [programs / "python", "-c", LOADED], cwd=folder, check=True, capture_output=True, text=True
    )
    assert done.stdout.startswith(str(programs.parent))
    return done.stdout.split(maxsplit=1)[1].strip()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return built(tmp_path_factory.mktemp("first"), SOURCE_DATE_EPOCH="1700000000")


def test_one_wheel_for_all_versions_of_python(wheel):
    assert "-cp311-abi3-linux_" in wheel.name
    assert wheel.stat().st_size < LARGEST
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert sorted(name for name in names if name.endswith(".so")) == EXTENSIONS
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"alphamf"}
    assert {Path(name).suffix for name in names} & {".c", ".h"} == set()


def test_a_second_build_gives_the_same_bytes(wheel, tmp_path):
    again = built(tmp_path / "elsewhere", SOURCE_DATE_EPOCH="1700000000")
    assert again.read_bytes() == wheel.read_bytes()


def test_the_audits_find_nothing(wheel, tmp_path):
    for package in ("auditwheel", "abi3audit"):
        pytest.importorskip(package)
    audit = [sys.executable, "-m", "abi3audit", "--strict", wheel]
    assert subprocess.run(audit, capture_output=True, check=False).returncode == 0
    # Of the C library it needs what every Linux of ten years has, and nothing else.
    done = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", wheel],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert '"manylinux_2_17_' in done.stdout


def test_without_a_compiler_numpy_does_the_work(tmp_path):
    wheel = built(tmp_path / "source", CC="no-such-compiler")
    with zipfile.ZipFile(wheel) as archive:
        assert [name for name in archive.namelist() if name.endswith(".so")] == []
    assert cleaned(installed(wheel, tmp_path / "venv"), tmp_path) == "False"


def test_from_the_clone_it_is_the_installed_package(wheel, tmp_path):
    programs = installed(wheel, tmp_path / "venv")
    clone = tmp_path / "clone"
    checkout(clone)
    assert cleaned(programs, clone) == "True"
    (clone / "noisy").mkdir()
    for name in ("a.wav", "b.wav"):
        shutil.copy(DATA / "sample-noisy.wav", clone / "noisy" / name)
    for words in (
        ["python", "-m", "alphamf", "denoise", "data/sample-noisy.wav"],
        ["alphamf", "denoise", "noisy", "--output-dir", "clean", "--jobs", "2"],
        ["python", "-c", "import alphamf; alphamf.denoise([0.0] * 8000, 8000)"],
    ):
        done = subprocess.run(
            [programs / words[0], *words[1:]],
            cwd=clone,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr


def test_a_clone_that_is_not_installed_is_one_sentence(tmp_path):
    checkout(tmp_path)
    for words in (["-m", "alphamf", "--version"], ["-c", "import alphamf"]):
        done = subprocess.run(
            [sys.executable, "-S", *words],  # without installed packages
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 1
        last = done.stderr.splitlines()[-1]
        sentence = f"alphamf is not installed in this Python: run 'pip install {tmp_path}'"
        assert last.endswith(f"Error: {sentence}")
