"""The constants of low latency: one place each, and the engine's headers are as made."""

import re

from benchmarks.engine_constants import HEADER, header
from tests.support.places import ROOT
from tests.support.twin import constants

NATIVE = ROOT / "alphamf" / "native"


def test_the_shared_header_is_the_one_that_is_made():
    made = "run python -m benchmarks.engine_constants"
    assert HEADER.read_text(encoding="utf-8") == header(), made


def test_no_name_is_defined_twice():
    names = [
        name
        for path in sorted(NATIVE.glob("*.h"))
        if path.name in ("_constants.h", "_shared.h")
        for name, _ in constants.LINE.findall(path.read_text(encoding="utf-8"))
    ]
    assert len(names) == len(set(names)) and len(names) > 80


def test_every_constant_is_used_in_c():
    """By the engine, or by the loops that it shares with the whole package."""
    code = "".join(path.read_text(encoding="utf-8") for path in NATIVE.glob("*.[ch]"))
    unused = [name for name in vars(constants.C) if len(re.findall(rf"\b{name}\b", code)) < 2]
    assert not unused
