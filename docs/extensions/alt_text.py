"""Every image of the site says in words what it shows."""

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

IMAGE = re.compile(r"<img\b[^>]*>")
ALT = re.compile(r'\balt="\s*[^"\s]')
DECORATION = re.compile(r'src="(?:[^"]*sphx_glr_\w+_thumb\.png|icon\.svg)"')
"""The gallery's small pictures, whose titles stand below them, and the sign beside the name."""


def check(app: Sphinx, error: Exception | None) -> None:
    """Refuse a site that has an image without words."""
    if error is not None or app.builder.format != "html":
        return
    missing = [
        f"{page.name}: {image}"
        for page in Path(app.outdir).rglob("*.html")
        for image in IMAGE.findall(page.read_text(encoding="utf-8"))
        if not ALT.search(image) and not DECORATION.search(image)
    ]
    if missing:
        raise ExtensionError("images without alt text: " + "; ".join(missing))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the check."""
    app.connect("build-finished", check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
