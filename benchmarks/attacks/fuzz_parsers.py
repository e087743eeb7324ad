"""Fuzz the parsers of this package, led by coverage: each must return or raise AlphaMFError.

For example, for ten minutes, and to keep what was found for the quick tests::

    python -m benchmarks.attacks.fuzz_parsers fuzz header found --seconds 600
    python -m benchmarks.attacks.fuzz_parsers keep header found

Atheris (libFuzzer) changes bytes and keeps in the folder what reaches new lines of alphamf, zipfile
and numpy's array files. An input that takes more than 5 s or 2 GB is a finding. Statistics are
printed; the input of a finding is written beside the folder. As many inputs as fit into 60 kB go to
tests/corpora, where the quick tests try them again.
"""

import os
import sys
import zipfile
from pathlib import Path
from typing import Annotated

from benchmarks.report import ROOT, run_main

CORPORA = ROOT / "tests" / "corpora"
NAMES = (
    *("header", "metadata", "sound", "archive", "dictionary", "network", "checkpoint"),
    *("pairs", "corpus", "results"),
)
MOST = 60_000  # Maximum number of bytes of inputs kept for a parser; the shortest inputs come first

LIMITS = ["-timeout=5", "-rss_limit_mb=2048", "-malloc_limit_mb=2048", "-max_len=6000"]


def kept(name: str) -> dict[str, bytes]:
    """Return the inputs in the corpus of a parser by name; empty if there is no corpus."""
    path = CORPORA / f"{name}.zip"
    if not path.exists():
        return {}
    with zipfile.ZipFile(path) as archive:
        return {entry: archive.read(entry) for entry in archive.namelist()}


def keep(name: Annotated[str, NAMES], folder: Path) -> None:
    """Write the smallest inputs that reach something new to the parser's corpus."""
    CORPORA.mkdir(exist_ok=True)
    size = 0
    with zipfile.ZipFile(CORPORA / f"{name}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir(), key=lambda path: (path.stat().st_size, path.name)):
            size += path.stat().st_size
            if size <= MOST and not path.name.startswith("seed-"):
                archive.writestr(zipfile.ZipInfo(path.name[:12]), path.read_bytes())


def fuzz(
    name: Annotated[str, NAMES],
    folder: Path,
    *,
    seconds: int = 600,
    inputs: int = 0,
    seed: int = 1,
) -> None:
    """Fuzz a parser in this process, which libFuzzer ends."""
    import atheris

    os.environ["ALPHAMF_SANDBOX"] = "off"  # only this process is instrumented
    with atheris.instrument_imports(include=["alphamf", "zipfile", "numpy.lib._format_impl"]):
        from alphamf.errors import AlphaMFError
        from benchmarks.attacks.parsers import PARSERS

    folder.mkdir(parents=True, exist_ok=True)
    seeds = {f"seed-{k}": data for k, data in enumerate(PARSERS[name].seeds())}
    for entry, data in {**kept(name), **seeds}.items():
        (folder / entry).write_bytes(data)
    limit = f"-runs={inputs}" if inputs else f"-max_total_time={seconds}"
    files = ["-print_final_stats=1", f"-artifact_prefix={folder}-finding-", str(folder)]
    place = folder.with_name(f"{folder.name}-parsed")
    place.mkdir(exist_ok=True)

    def one(data: bytes) -> None:
        try:
            PARSERS[name].parse(data, place)
        except AlphaMFError as error:
            assert str(error).isprintable(), error

    atheris.Setup([sys.argv[0], *LIMITS, limit, f"-seed={seed}", *files], one)
    atheris.Fuzz()


if __name__ == "__main__":
    run_main({"fuzz": fuzz, "keep": keep})
