"""Fuzz the parsers of this package, led by coverage: each must return or raise AlphaMFError.

For example::

    python -m benchmarks.attacks.fuzz_parsers --seconds 600

Atheris (libFuzzer) changes bytes and keeps what reaches new lines of alphamf, zipfile and numpy's
array files; each parser of `benchmarks.attacks.parsers` runs in a process of its own, with 5 s and
2 GB an input at most: a longer time is a finding. The inputs kept go to tests/corpora with
``--keep``, as many as fit into 60 kB, where the quick tests try them again; those of findings to
``--findings``. With ``--write`` the rows of these parsers in docs/reliability.md are replaced.
"""

import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

from benchmarks.report import RELIABILITY, ROOT, publish_rows, run_main

CORPORA = ROOT / "tests" / "corpora"
NAMES = (
    *("header", "metadata", "sound", "archive", "dictionary", "network", "checkpoint"),
    *("pairs", "corpus", "results"),
)
MOST = 60_000  # Bytes of the inputs that are kept of a parser: fewer, and shorter ones first

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


def keep_inputs(name: str, folder: Path) -> None:
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
        command = [sys.executable, __file__, "-print_final_stats=1", *arguments]
        asked = {
            "FUZZ_PARSER": name,
            "FUZZ_PLACE": place,
            "PYTHONPATH": str(ROOT),
            "PYTHONHASHSEED": "0",
        }
        variables = {**os.environ, **asked}
        return subprocess.run(command, env=variables, capture_output=True, check=False)


def be_libfuzzer(name: str, place: Path) -> None:
    """Fuzz a parser, whose files go to a folder, in this process.

    Arguments are those of libFuzzer; the last one is the folder of the corpus, which gets the
    parser's seeds.
    """
    import atheris

    os.environ["ALPHAMF_SANDBOX"] = "off"  # only this process is instrumented
    with atheris.instrument_imports(include=["alphamf", "zipfile", "numpy.lib._format_impl"]):
        from alphamf.errors import AlphaMFError
        from benchmarks.attacks.parsers import PARSERS

    for k, data in enumerate(PARSERS[name].seeds()):
        Path(sys.argv[-1], f"seed-{k}").write_bytes(data)

    def one(data: bytes) -> None:
        try:
            PARSERS[name].parse(data, place)
        except AlphaMFError as error:
            assert str(error).isprintable(), error

    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


def main(
    *,
    only: str = ",".join(NAMES),
    seconds: float = 600,
    inputs: int = 0,
    seed: int = 1,
    findings: Path = Path("fuzz"),
    keep: bool = False,
    write: bool = False,
) -> None:
    """Fuzz all parsers, and print the table and the findings."""
    limit = f"-runs={inputs}" if inputs else f"-max_total_time={seconds:g}"
    rows = []
    for name in only.split(","):
        with tempfile.TemporaryDirectory(prefix="corpus-") as folder:
            run = fuzz(name, Path(folder), limit, findings, seed)
            if run.finding:
                print(f"{name}: {run.finding}", flush=True)
            if keep:
                keep_inputs(name, Path(folder))
        numbers = run.inputs, run.edges, run.kept, run.memory, int(bool(run.finding))
        rows.append([name, *map(str, numbers)])
        print(*rows[-1], flush=True)
    headings = ["parser", "inputs", "edges reached", "inputs kept", "most MB", "findings"]
    publish_rows(RELIABILITY, "parsers", headings, rows, [(n,) for n in NAMES], write=write)
    raise SystemExit(any(row[-1] != "0" for row in rows))


if __name__ == "__main__":
    if "FUZZ_PARSER" in os.environ:
        be_libfuzzer(os.environ["FUZZ_PARSER"], Path(os.environ["FUZZ_PLACE"]))
    run_main(main)
