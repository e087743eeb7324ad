"""report.html: what an evaluation found, on one page that needs no other file and no network."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

from alphamf.evaluation.page.content import content
from alphamf.evaluation.runner import Result
from alphamf.tools.files import atomic


def write(output: Path, results: list[Result], settings: dict[str, Any]) -> Path:
    """Write ``report.html``, sounds included, and return where it is.

    Parameters
    ----------
    output
        Folder of the evaluation: the page goes there, and the sounds of three clips are read from
        it, where `Result.audio` and `alphamf.evaluation.runner.audio_name` say.
    results
        In any order; none is allowed.
    settings
        What ``settings.json`` holds; what is absent is left out.

    Raises
    ------
    AlphaMFError
        The page cannot be written.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader(__name__, "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # The browser runs this script and no other, whatever the names of files hold.
    script = environment.get_template("script.js.j2").render()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = environment.get_template("report.html.j2").render(
        content(output, results, settings),
        script=Markup(script),
        script_hash=f"sha256-{digest}",
    )
    path = output / "report.html"
    with atomic(path) as part:
        # A name that is no UTF-8 comes as `alphamf.tools.files.shown` has it.
        part.write_text(page, "utf-8", errors="backslashreplace", newline="\n")
    return path
