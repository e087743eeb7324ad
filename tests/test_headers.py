"""The C headers: each includes what it uses, no circle, and setuptools knows them all."""

import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.support.places import ROOT

HEADERS = sorted((ROOT / "alphamf").rglob("*.h"))
TOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
EXTENSIONS = TOOLS["setuptools"]["ext-modules"]
TEMPLATE = ["-DCOPY(name)=name##_copy", "-DWIDTH=4", "-DOUTPUTS=4"]
"""What _correlations.h defines before each time that it includes _tiles.h."""

PARTS = ["_leaps.h"]
"""Parts of one C file, which includes them for each type of numbers; they are no headers alone."""


def includes(path: Path) -> set[Path]:
    """Return the headers of the package that a file includes."""
    names = re.findall(r'^\s*#\s*include\s+"(.+)"', path.read_text(encoding="utf-8"), re.MULTILINE)
    return {(path.parent / name).resolve() for name in names}


def test_no_header_includes_itself_by_others():
    graph = {path.resolve(): includes(path) for path in HEADERS}
    order = list(TopologicalSorter(graph).static_order())
    assert set(order) == set(graph), "a header that is included is none of the package"


@pytest.mark.parametrize("extension", EXTENSIONS, ids=lambda extension: extension["name"])
def test_an_extension_is_built_again_when_any_of_its_headers_changes(extension):
    reached, waiting = set(), [ROOT / source for source in extension["sources"]]
    while waiting:
        new = includes(waiting.pop()) - reached
        reached |= new
        waiting += new
    assert {path.relative_to(ROOT).as_posix() for path in reached} == set(extension["depends"])


@pytest.mark.parametrize(
    "path", [path for path in HEADERS if path.name not in PARTS], ids=lambda path: path.name
)
def test_a_header_compiles_without_any_other_before_it(path):
    folder = Path(sysconfig.get_path("include"))
    if (sys.platform, platform.machine()) != ("linux", "x86_64") or not shutil.which("gcc"):
        pytest.skip("some headers are for GCC on Linux and x86-64 alone")
    if not (folder / "Python.h").exists():
        pytest.skip("needs Python's own headers")
    command = ["gcc", "-fsyntax-only", "-x", "c", f"-I{folder}", str(path)]
    if path.name == "_tiles.h":
        command += TEMPLATE
    assert subprocess.run(command, capture_output=True, text=True, check=False).returncode == 0
