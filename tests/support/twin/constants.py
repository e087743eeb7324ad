"""The constants of low latency, as the engine's headers define them."""

import re
from types import SimpleNamespace

from tests.support.places import ROOT

LINE = re.compile(r"#define (\w+) (\{.*\}|\S+)")


def value_of(text: str):
    """Return the number of a definition, or the tuple of those between braces."""
    if text.startswith("{"):
        return tuple(value_of(each.strip()) for each in text[1:-1].split(","))
    text = text.strip("()")
    return float(text.rstrip("f")) if re.search(r"[.e]", text) else int(text)


def read():
    """Return the constants of both headers by their names."""
    found = SimpleNamespace()
    for name in ("_constants.h", "_shared.h"):
        for each in LINE.finditer((ROOT / "alphamf" / "native" / name).read_text()):
            setattr(found, each[1], value_of(each[2]))
    return found


C = read()
