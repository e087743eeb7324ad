"""What is said of a release in several files agrees: versions, requirements, platforms."""

import re
import tomllib

import pytest

from tests.support.places import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
yaml = pytest.importorskip("yaml")
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
LOCKED = sorted((ROOT / ".ci/locked").glob("*.txt"))
IMAGES = [ROOT / "Dockerfile", ROOT / "docs/demo/Dockerfile"]
BUILDERS = [*WORKFLOWS, *IMAGES, ROOT / ".ci/release", ROOT / ".ci/lock"]
"""What installs packages for others than developers."""

CONDA = {"soundfile": "pysoundfile", "soxr": "soxr-python"}
"""Packages that conda-forge calls otherwise."""


def read(path):
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def test_versions_agree():
    assert read("CITATION.cff")["version"] == PROJECT["version"]
    assert read("recipe/recipe.yaml")["context"]["version"] == PROJECT["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## (\S+)", changelog, re.MULTILINE)[1] == PROJECT["version"]


def test_the_recipe_has_the_requirements():
    wanted = [re.match(r"([\w-]+)(.*)", each).groups() for each in PROJECT["dependencies"]]
    named = [f"{CONDA.get(name, name)} {bounds}" for name, bounds in wanted]
    assert read("recipe/recipe.yaml")["requirements"]["run"] == ["python", *named]


def commands(path):
    """Return the lines of a file that are no comments, continued ones as one."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    return [line for line in text.splitlines() if not line.lstrip().startswith("#")]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_end_ask_for_no_rights_and_pin_every_action_to_a_commit(path):
    """A tag or a branch can be moved to other code; the comment says the version of the commit."""
    found = read(path)
    assert found["permissions"] == {"contents": "read"}
    assert all(0 < job["timeout-minutes"] <= 90 for job in found["jobs"].values())
    named = [line for line in commands(path) if re.search(r"\buses:", line)]
    assert named
    for line in named:
        assert re.search(r"uses: [\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+$", line), line


@pytest.mark.parametrize("path", BUILDERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_package_that_is_installed_is_pinned(path):
    """By a file of hashes, by a version of its own, or it is the folder itself."""
    for line in commands(path):
        assert not re.search(r"\b(pipx|uvx|conda|npm|curl|wget)\b", line), line
        for options in re.findall(r"\bpip(?:\d?\S*| --python \S+) install\b([^&|;]*)", line):
            asked = [word for word in options.split() if not word.startswith("-")]
            if "--require-hashes" in options:
                assert re.search(r"-r \S*\.ci/locked/\w+\.txt", options), line
            elif "--no-deps" in options:
                assert set(asked) <= {".", "/source"}, line
            else:
                assert asked and all("==" in word for word in asked), line


def test_the_tools_of_the_build_are_pinned():
    found = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    locked = names_of(ROOT / ".ci/locked/release.txt")
    for each in found["build-system"]["requires"]:
        name, version = each.split("==")
        assert locked[name] == {version}
    repair = " ".join(found["tool"]["cibuildwheel"]["linux"]["repair-wheel-command"])
    assert locked["abi3audit"] == set(re.findall(r"pipx run --spec abi3audit==(\S+) ", repair))


@pytest.mark.parametrize("path", IMAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_images_are_pinned_to_a_digest(path):
    images = [line for line in commands(path) if line.startswith("FROM")]
    assert images and all(re.search(r"@sha256:[0-9a-f]{64}( AS \w+)?$", line) for line in images)


def names_of(path):
    """Return the versions of each package of a locked file."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and line[0] not in "# ":
            name, version = re.match(r"([\w.-]+)==([\w.+!]+)( |$)", line).groups()[:2]
            found.setdefault(name, set()).add(version)
    return found


@pytest.mark.parametrize("path", LOCKED, ids=lambda path: path.stem)
def test_locked_packages_have_hashes_and_name_no_host(path):
    text = path.read_text(encoding="utf-8")
    entries = re.split(r"\n(?=[^# ])", text.partition(".ci/lock\n")[2])
    assert entries
    for entry in entries:
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry
    assert not re.search(r"://|--(extra-)?index|--find-links| @ ", text)


@pytest.mark.parametrize(("lock", "extra"), [("image", "web"), ("tests", "dev"), ("tests", "jax")])
def test_locked_packages_are_what_the_project_asks_for(lock, extra):
    requirements = pytest.importorskip("packaging.requirements")
    locked = names_of(ROOT / f".ci/locked/{lock}.txt")
    for each in [*PROJECT["dependencies"], *PROJECT["optional-dependencies"][extra]]:
        asked = requirements.Requirement(each)
        if asked.name != "alphamf":
            versions = locked[asked.name.lower()]
            assert all(asked.specifier.contains(version) for version in versions), each
