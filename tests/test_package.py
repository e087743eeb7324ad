"""What the package declares: libraries that it imports, what its archive holds, C headers."""

import ast
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.support.places import ROOT, checkout

DECLARED = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = DECLARED["project"]

OTHERWISE = {"PIL": "pillow", "cupy": "cupy-cuda12x", "pipecat": "pipecat-ai"}
OTHERWISE |= {"sklearn": "scikit-learn"}
"""Distributions that are not called like what they hold."""


def named(requirements):
    """Return the names of requirements."""
    return {re.match(r"[\w.-]+", each)[0].lower() for each in requirements}


def outside(folder):
    """Return the distributions that a folder imports, wherever it does, with a file that does."""
    own = {"alphamf", "benchmarks", "tests", *sys.stdlib_module_names}
    found = {}
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            for name in {name.partition(".")[0] for name in names} - own:
                found.setdefault(OTHERWISE.get(name, name.replace("_", "-")), str(path))
    return found


@pytest.mark.parametrize("folder", ["alphamf", "cli", "models", "tests", "benchmarks"])
def test_what_is_imported_is_declared(folder):
    extras = PROJECT["optional-dependencies"]
    declared = named(PROJECT["dependencies"])
    for name in extras.keys() - ({"dev"} if folder in ("alphamf", "cli", "models") else set()):
        declared |= named(extras[name])
    assert {name: path for name, path in outside(folder).items() if name not in declared} == {}


def test_every_dependency_has_both_bounds():
    for each in PROJECT["dependencies"]:
        assert re.fullmatch(r"[\w-]+>=[\d.]+,<[\d.]+", each), each


def test_the_public_names_are_listed_and_there():
    import alphamf

    assert set(dir(alphamf)) == {*alphamf.__all__, "__doc__", "__version__"}
    assert alphamf.__version__ == PROJECT["version"]
    assert all(getattr(alphamf, name) is not None for name in dir(alphamf))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = alphamf.nothing


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """Build the source archive from what is committed or staged, and unpack it."""
    pytest.importorskip("setuptools")
    copy, folder = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("archive")
    names = checkout(copy)
    code = "from setuptools.build_meta import build_sdist; import sys; build_sdist(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", code, str(folder)], cwd=copy, check=True, capture_output=True
    )
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz"), names


@pytest.mark.slow
def test_the_source_archive_holds_what_its_tests_need(unpacked):
    """All that is versioned, but for what continuous integration and git themselves need."""
    place, names = unpacked
    missing = [name for name in names if not (place / name).is_file()]
    assert [name for name in missing if name not in (".gitignore", ".ci/run")] == []


@pytest.mark.slow
def test_the_tests_of_the_source_archive_run(unpacked):
    place, _ = unpacked
    # The tests import the package from the folder that they are in, where cli/ is not inside.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    tests = ["tests/tools", "tests/inference/test_schedule.py", "tests/test_docs.py"]
    done = subprocess.run([*command, *tests], cwd=place, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


HEADERS = sorted((ROOT / "alphamf").rglob("*.h"))
EXTENSIONS = DECLARED["tool"]["setuptools"]["ext-modules"]
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
