"""Be libFuzzer for one parser: what `benchmarks.attacks.fuzz_parsers` starts.

Little is imported here, since only what is imported inside the instrumentation leads the fuzzer.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import atheris


def main() -> None:
    """Fuzz the parser FUZZ_PARSER, whose files go to FUZZ_PLACE.

    Arguments are those of libFuzzer; the last one is the folder of the corpus, which gets the
    parser's seeds.
    """
    name, place = os.environ["FUZZ_PARSER"], os.environ["FUZZ_PLACE"]
    os.environ["ALPHAMF_SANDBOX"] = "off"  # only this process is instrumented
    with atheris.instrument_imports(include=["alphamf", "zipfile", "numpy.lib._format_impl"]):
        from alphamf.errors import AlphaMFError
        from benchmarks.attacks.parsers import PARSERS

    for k, data in enumerate(PARSERS[name].seeds()):
        Path(sys.argv[-1], f"seed-{k}").write_bytes(data)

    def one(data: bytes) -> None:
        try:
            PARSERS[name].parse(data, Path(place))
        except AlphaMFError as error:
            assert str(error).isprintable(), error

    atheris.Setup(sys.argv, one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
