"""Writes report.html: the results of an evaluation on one self-contained page."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

from alphamf.evaluation.page.content import content
from alphamf.evaluation.results import Result
from alphamf.tools.files import atomic_file


def write(output: Path, results: list[Result], settings: dict[str, Any]) -> Path:
    """Write ``report.html``, sounds included."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader(__package__, "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # The content security policy allows this script alone, whatever file names contain.
    script = environment.get_template("script.js.j2").render()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = environment.get_template("report.html.j2").render(
        content(output, results, settings),
        script=Markup(script),
        script_hash=f"sha256-{digest}",
    )
    path = output / "report.html"
    with atomic_file(path, within=output) as part:
        # Names that are no UTF-8 are escaped as in `alphamf.tools.files.printable_name`.
        part.write_text(page, "utf-8", errors="backslashreplace", newline="\n")
    return path
