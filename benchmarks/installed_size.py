"""How large an environment is, package by package.

From the repository root, where `.venv` is what was installed::

    python -m benchmarks.installed_size .venv
"""

from __future__ import annotations

from importlib.metadata import Distribution, distributions
from pathlib import Path

from benchmarks.report import options_of, run_main

LEAST = 5e6
"""Bytes of the smallest package that has a line of its own."""


def size(package: Distribution) -> int:
    """Return the bytes of the files of a package, those that Python compiled included."""
    paths = (Path(str(package.locate_file(file))) for file in package.files or [])
    return sum(path.stat().st_size for path in paths if path.is_file())


def main() -> None:
    """Print a table of the environment that the command line names."""
    parser = options_of("benchmarks.installed_size", __doc__)
    parser.add_argument("environment", type=Path)
    (site,) = parser.parse_args().environment.glob("lib/python*/site-packages")
    sizes = {each.name: size(each) for each in distributions(path=[str(site)])}
    print("| package | MB |\n|---|---:|")
    for name in sorted(sizes, key=lambda each: -sizes[each]):
        if sizes[name] >= LEAST:
            print(f"| {name} | {sizes[name] / 1e6:.1f} |")
    rest = [each for each in sizes.values() if each < LEAST]
    print(f"| {len(rest)} others | {sum(rest) / 1e6:.1f} |")
    print(f"| **all** | {sum(sizes.values()) / 1e6:.1f} |")


if __name__ == "__main__":
    run_main(main)
