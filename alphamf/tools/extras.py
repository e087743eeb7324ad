"""Optional packages that only some commands need, and the extras that install them."""

from __future__ import annotations

from importlib.util import find_spec

from alphamf.errors import AlphaMFError


def require_package(what: str, package: str, extra: str) -> None:
    """Raise an AlphaMFError before the work starts if a package is not installed.

    Parameters
    ----------
    what
        Feature that needs the package, in the user's words.
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
        raise AlphaMFError(
            f"{what} needs the package {package}; install it with pip install 'alphamf[{extra}]'"
        )


def installed_version(package: str) -> str | None:
    """Return the version of a package, by its name for pip; None if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version  # slow to import

    try:
        return version(package)
    except PackageNotFoundError:
        return None
