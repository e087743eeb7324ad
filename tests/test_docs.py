"""The documents: links, paths, modules and tests that they name exist, and tables stay narrow."""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.support.places import ROOT

PAGES = sorted(
    page for pattern in ("*.md", "*/README.md", "docs/**/*.md") for page in ROOT.glob(pattern)
)
FOLDERS = ("alphamf", "benchmarks", "cli", "data", "docs", "models", "tests", "web")
MOVED = {"alphamf.cli": "cli", "alphamf.models": "models"}
"""Packages that lie beside alphamf/."""

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def prose_of(page: Path) -> str:
    """Return the text without fenced code."""
    return re.sub(r"^```.*?^```$", "", text_of(page), flags=re.DOTALL | re.MULTILINE)


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives to the headings."""
    titles = re.findall(r"^#+ (.+)$", prose_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@cache
def files() -> list[Path]:
    """Return the source files of the repository."""
    return [path for name in FOLDERS for path in (ROOT / name).rglob("*") if path.is_file()]


@cache
def all_tests() -> str:
    """Return the source of all tests."""
    return "\n".join(text_of(path) for path in (ROOT / "tests").rglob("*.py"))


def source(dotted: str) -> tuple[str, list[str]]:
    """Return the source of the longest module of a dotted name, and the parts left over."""
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        name = ".".join(parts[:end])
        for package, folder in MOVED.items():
            name = re.sub(rf"^{re.escape(package)}\b", folder, name)
        path = ROOT / name.replace(".", "/")
        if path.is_dir():
            return text_of(path / "__init__.py"), parts[end:]
        if path.with_suffix(".py").is_file():
            return text_of(path.with_suffix(".py")), parts[end:]
    return "", parts


@each_page
def test_relative_links_resolve(page):
    links = re.findall(r"\]\(([^)\s]+)\)", prose_of(page))
    broken = []
    for link in links:
        if re.match(r"\w+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


@each_page
def test_paths_exist(page):
    """A path may start at the repository or at alphamf/; a bare file name may lie anywhere."""
    names = {path.name for path in files()}
    paths = re.findall(r"(?<![\w/.*-])((?:\w+/)*\w+\.(?:py|c|npz|j2))(?![\w*])", text_of(page))
    missing = [
        path
        for path in paths
        if path.split("/")[0] in (*FOLDERS, *(p.name for p in (ROOT / "alphamf").iterdir()))
        and "/" in path
        and not ((ROOT / path).exists() or (ROOT / "alphamf" / path).exists())
    ]
    bare = re.findall(r"`(\w+\.py)`", text_of(page))
    assert missing + [name for name in bare if name not in names] == []
    folders = re.findall(r"`((?:alphamf|cli|tests|docs|benchmarks)/[\w/]*)`", text_of(page))
    assert [folder for folder in folders if not (ROOT / folder).exists()] == []


@each_page
def test_modules_and_their_names_exist(page):
    text = re.sub(r"\bGone: .*?(?=\n- |\Z)", "", text_of(page), flags=re.DOTALL)  # the changelog's
    text = re.sub(r"^```js$.*?^```$|\balphamf\.(?:h|js|wasm)\b", "", text, flags=re.DOTALL | re.M)
    missing = []
    for dotted in re.findall(r"(?<![\w/.-])((?:alphamf|benchmarks)(?:\.[A-Za-z_]\w*)+)", text):
        found, rest = source(dotted)
        if not found or (rest and not re.search(rf"\b{rest[0]}\b", found)):
            missing.append(dotted)
    for dotted, names in re.findall(r"^from (alphamf[\w.]*) import (.+)$", text, re.MULTILINE):
        found, rest = source(dotted)
        absent = [name for name in names.split(", ") if not re.search(rf"\b{name}\b", found)]
        missing += [f"{dotted}: {name}" for name in [*rest, *absent]]
    assert not missing


@each_page
def test_named_tests_exist(page):
    named = re.findall(r"`(test_\w+)`", text_of(page))
    assert [name for name in named if f"def {name}(" not in all_tests()] == []


@each_page
def test_commands_exist(page):
    """Commands of `alphamf`, and of benchmarks/ with the part that they name."""
    from alphamf.cli.app import app
    from benchmarks import checks, cost, latency, quality, recipes

    known = {command.name or command.callback.__name__ for command in app.registered_commands}
    known |= {group.name for group in app.registered_groups}
    code = "\n".join(re.findall(r"```sh\n.*?```|`alphamf [^`]*`", text_of(page), re.DOTALL))
    named = re.findall(r"(?:^|`|&& |\| )alphamf ([a-z]\w*)(?=[ `\n])", code, re.MULTILINE)
    assert [name for name in named if name not in known] == []
    parts = {"quality": quality.CASES, "recipes": recipes.RECIPES}
    parts |= {"checks": checks.PARTS, "cost": cost.PARTS, "latency": latency.PARTS}
    for module, part in re.findall(
        r"python -m benchmarks\.([\w.]+\w)(?: ([\w-]+))?", text_of(page)
    ):
        path = module.replace(".", "/")
        assert (ROOT / f"benchmarks/{path}.py").is_file(), module
        assert module not in parts or part in ("", *parts[module]), (module, part)


def test_samplers_are_all_described():
    from alphamf import SAMPLERS

    table = text_of(ROOT / "docs/samplers.md").split("## All of them")[1].split("\n## ")[0]
    assert re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE) == list(SAMPLERS)


def test_rows_of_the_papers_have_a_file_a_test_and_a_page():
    """Files and tests exist; a row without a test says that there is none, and why."""
    page = ROOT / "docs/papers/rows.md"
    rows = re.findall(r"^\| (?!row |---)(.+?) \| (.+?) \| (.+?) \| (.+?) \|$", text_of(page), re.M)
    assert len(rows) == sum(line.startswith("| ") for line in text_of(page).splitlines()) - 8
    assert len(rows) > 60
    for row, file, test, link in rows:
        (path,) = re.findall(r"^`(alphamf/[\w/]+\.py)`$", file)
        assert (ROOT / path).is_file(), row
        assert re.search(r"`test_\w+`|\*\*none\*\*: \w", test), row
        for name in re.findall(r"`(\w+)`", test):
            assert f"def {name}(" in all_tests(), (row, name)
        target, _, anchor = re.fullmatch(r"\[.+\]\((.+?\.md)(#(.+))?\)", link).groups()
        assert (page.parent / target).is_file(), row
        assert anchor is None or anchor in anchors(page.parent / target), (row, anchor)


def test_readme_is_short_and_tables_of_benchmarks_are_narrow():
    assert len(text_of(ROOT / "README.md").splitlines()) < 90
    rows = [line for line in text_of(ROOT / "BENCHMARKS.md").splitlines() if line.startswith("|")]
    assert max(row.count(" | ") + 1 for row in rows) <= 6
