"""Fuzz the parsers of this package, led by coverage: each must return or raise AlphaMFError.

For example::

    python -m benchmarks.attacks.fuzz_parsers --seconds 600

Atheris (libFuzzer) changes bytes and keeps what reaches new lines of alphamf, zipfile and numpy's
array files; each parser of `benchmarks.attacks.parsers` runs in a process of its own, with 5 s and
2 GB an input at most: a longer time is a finding. The inputs kept go to tests/corpora with
``--keep``, as many as fit into 60 kB, where the quick tests try them again; those of findings to
``--findings``. With ``--write`` the rows of these parsers in docs/reliability.md are replaced.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

from alphamf.tools import tables
from benchmarks.report import caption, options_of, publish, rows_of, run_main

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reliability.md"
SOURCE = Path(__file__).with_name("libfuzzer.py")
CORPORA = ROOT / "tests" / "corpora"
NAMES = (
    *("header", "metadata", "sound", "archive", "dictionary", "network", "checkpoint"),
    *("pairs", "corpus", "results"),
)
MOST = 60_000
"""Bytes of the inputs that are kept of a parser: fewer, and shorter ones first."""

LIMITS = ["-timeout=5", "-rss_limit_mb=2048", "-malloc_limit_mb=2048", "-max_len=6000"]


class Run(NamedTuple):
    """What became of a parser's run: numbers for the table, and what a finding printed."""

    inputs: int
    edges: int
    kept: int
    memory: int
    finding: str


def kept(name: str) -> dict[str, bytes]:
    """Return the inputs in the corpus of a parser, by name."""
    path = CORPORA / f"{name}.zip"
    if not path.exists():
        return {}
    with zipfile.ZipFile(path) as archive:
        return {entry: archive.read(entry) for entry in archive.namelist()}


def fuzz(name: str, folder: Path, limit: str, findings: Path, seed: int) -> Run:
    """Fuzz a parser in a process of its own."""
    for entry, data in kept(name).items():
        (folder / entry).write_bytes(data)
    findings.mkdir(parents=True, exist_ok=True)
    options = [limit, f"-artifact_prefix={findings}/{name}-"]
    done = _libfuzzer(name, [*LIMITS, *options, f"-seed={seed}", str(folder)])
    said = done.stderr.decode(errors="replace")
    numbers = dict(re.findall(r"stat::(\w+): +(\d+)", said))
    edges = re.findall(r"cov: (\d+)", said)
    return Run(
        int(numbers.get("number_of_executed_units", 0)),
        int(edges[-1]) if edges else 0,
        len(list(folder.iterdir())),
        int(numbers.get("peak_rss_mb", 0)),
        _finding(done.stdout.decode(errors="replace"), said) if done.returncode else "",
    )


def _finding(printed: str, said: str) -> str:
    """Return the traceback of a finding, or libFuzzer's words where there is none."""
    _, there, exception = printed.partition("=== Uncaught Python exception: ===")
    words = [line for line in said.splitlines() if "ERROR:" in line or "Test unit" in line]
    return "\n".join([exception.strip() if there else said[-2000:], *words])


def keep(name: str, folder: Path) -> None:
    """Write the smallest inputs that reach something new to the parser's corpus."""
    CORPORA.mkdir(exist_ok=True)
    size = 0
    with zipfile.ZipFile(CORPORA / f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir(), key=lambda path: (path.stat().st_size, path.name)):
            size += path.stat().st_size
            if size <= MOST and not path.name.startswith("seed-"):
                archive.writestr(zipfile.ZipInfo(path.name[:12]), path.read_bytes())


def _libfuzzer(name: str, arguments: list[str]) -> subprocess.CompletedProcess[bytes]:
    with tempfile.TemporaryDirectory(prefix="fuzz-") as place:
        command = [sys.executable, SOURCE, "-print_final_stats=1", *arguments]
        asked = {
            "FUZZ_PARSER": name,
            "FUZZ_PLACE": place,
            "PYTHONPATH": str(ROOT),
            "PYTHONHASHSEED": "0",
        }
        variables = {**os.environ, **asked}
        return subprocess.run(command, env=variables, capture_output=True, check=False)


def _with_others(rows: dict[str, list[str]]) -> list[list[str]]:
    """Return rows of the table; parsers that were not fuzzed keep theirs of the page."""
    rows = {name: cells for name, *cells in rows_of(PAGE, "parsers")} | rows
    return [[name, *rows[name]] for name in NAMES if name in rows]


def main() -> None:
    """Fuzz all parsers, and print the table and the findings."""
    parser = options_of("benchmarks.attacks.fuzz_parsers", __doc__)
    parser.add_argument("--only", default=",".join(NAMES), help="parsers")
    parser.add_argument("--seconds", type=float, default=600, help="for each")
    parser.add_argument("--inputs", type=int, help="for each, instead of --seconds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--findings", type=Path, default=Path("fuzz"), help="folder for them")
    parser.add_argument("--keep", action="store_true", help="keep new inputs in tests/corpora")
    parser.add_argument("--write", action="store_true", help="put the table into the page")
    asked = parser.parse_args()
    arguments = ["--only", asked.only] if asked.only != ",".join(NAMES) else []
    arguments += ["--seconds", f"{asked.seconds:g}"]
    limit = f"-max_total_time={asked.seconds:g}"
    if asked.inputs:
        arguments[-2:] = ["--inputs", str(asked.inputs)]
        limit = f"-runs={asked.inputs}"
    rows: dict[str, list[str]] = {}
    found = False
    for name in asked.only.split(","):
        with tempfile.TemporaryDirectory(prefix="corpus-") as folder:
            run = fuzz(name, Path(folder), limit, asked.findings, asked.seed)
            if run.finding:
                found = True
                print(f"{name}: {run.finding}", flush=True)
            if asked.keep:
                keep(name, Path(folder))
        numbers = run.inputs, run.edges, run.kept, run.memory, int(bool(run.finding))
        rows[name] = list(map(str, numbers))
        print(name, *rows[name], flush=True)
    headings = ["parser", "inputs", "edges reached", "inputs kept", "most MB", "findings"]
    made = caption(
        "benchmarks.attacks.fuzz_parsers",
        [*arguments, "--seed", str(asked.seed)],
        ("alphamf", "numpy", "atheris"),
    )
    publish(
        PAGE,
        "parsers",
        f"{tables.markdown(headings, _with_others(rows))}\n\n{made}",
        write=asked.write,
    )
    raise SystemExit(found)


if __name__ == "__main__":
    run_main(main)
