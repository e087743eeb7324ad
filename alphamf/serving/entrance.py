"""A file that redirects the browser to the page, as other users can see command lines."""

from __future__ import annotations

import html
import os
from pathlib import Path

from alphamf.errors import AlphaMFError
from alphamf.tools.files import reason

_PAGE = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={address}">
<title>alphamf</title>
<p><a href="{address}">Open the page of alphamf</a></p>
"""


def write_entrance(folder: Path, address: str) -> Path:
    """Write a file of this user alone that redirects to an address."""
    path = folder / "open.html"
    try:
        # O_EXCL refuses whatever has that name, a link too.
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(file, "w", encoding="utf-8") as page:
            page.write(_PAGE.format(address=html.escape(address)))
    except OSError as error:
        raise AlphaMFError(
            f"the file that opens the browser cannot be written: {reason(error)}"
        ) from error
    return path
