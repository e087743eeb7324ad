"""Be libFuzzer for one parser: what `benchmarks.fuzz_parsers` starts.

Little is imported here, since only what is imported inside the instrumentation leads the fuzzer.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris


def main() -> None:
    """Fuzz: arguments are the parser, a folder for its files, and those of libFuzzer.

    The last one is the folder of the corpus, which gets the parser's seeds.
    """
    name, place, *arguments = sys.argv[1:]
    with atheris.instrument_imports(include=["alphamf", "zipfile", "numpy.lib._format_impl"]):
        from alphamf.errors import AlphaMFError
        from benchmarks.parsers import PARSERS

    for k, data in enumerate(PARSERS[name].seeds()):
        Path(arguments[-1], f"seed-{k}").write_bytes(data)

    def one(data: bytes) -> None:
        try:
            PARSERS[name].parse(data, Path(place))
        except AlphaMFError as error:
            assert str(error).isprintable(), error

    atheris.Setup([sys.argv[0], *arguments], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
