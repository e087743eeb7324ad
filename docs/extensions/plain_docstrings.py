r"""Docstrings as they are read in Python, for Sphinx.

In their text ``(*chains, D)`` is a shape and ``|X|^2`` a power; to reStructuredText a ``*`` opens
emphasis and a ``|`` a substitution. Code and formulas are left alone.
"""

import re
from typing import Any

from sphinx.application import Sphinx

LEFT_ALONE = re.compile(
    r"(``.*?``|`[^`]*`|^[ ]*\.\.[ ]math::.*?(?=\n[ ]*\n[ ]*\S|\Z)|^[ ]*(?:>>>|\.\.\.).*?$)",
    re.DOTALL | re.MULTILINE,
)
ALIAS = re.compile(r"TypeAliasForwardRef\('(\w+)'\)")
SPECIAL = re.compile(r"\*(?=\w+[,)])(?!\w+\*)|\|")


def escape(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Escape, before numpydoc reads it, what is meant to be read as it is."""
    parts = LEFT_ALONE.split("\n".join(lines))
    parts[::2] = [SPECIAL.sub(r"\\\g<0>", part) for part in parts[::2]]
    lines[:] = "".join(parts).split("\n")


def named(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: str
) -> tuple[str | None, str | None]:
    """Return a signature in which `autodoc_type_aliases` stand as names also inside of a union."""
    text, end = (ALIAS.sub(r"\1", part) if part else part for part in (signature, returns))
    return text, end


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the hooks, that of the text ahead of numpydoc's."""
    app.connect("autodoc-process-signature", named, priority=900)
    app.connect("autodoc-process-docstring", escape, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
