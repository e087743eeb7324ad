"""Packages that only some commands need, and that an extra of this package brings."""

from __future__ import annotations

from importlib.util import find_spec

from alphamf.errors import AlphaMFError


def need(what: str, package: str, extra: str) -> None:
    """Check that a package is installed, before any work.

    Parameters
    ----------
    what
        What needs it, as the user calls it.
    package
        Its name on import.
    extra
        The extra that brings it.

    Raises
    ------
    AlphaMFError
        It is not installed.
    """
    if find_spec(package) is None:
        raise AlphaMFError(f"{what} needs the package {package}: pip install 'alphamf[{extra}]'")
