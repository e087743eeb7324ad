"""Markdown that is read both in the repository and on the site.

A page of the site may include a file from outside docs/ by a line ``<!-- include: ../../FILE -->``.
In all of them, links between files are turned into what Sphinx resolves: links to pages of the site
go there, links to sounds are copied to the site, where a script makes players of them, and links to
other files, which the site does not have, become plain text.
"""

import os
import re
from pathlib import Path

from sphinx.application import Sphinx

INCLUDE = re.compile(r"^<!-- include: (\S+) -->$", re.MULTILINE)
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:|#)([^)\s#]+)(#[^)\s]+)?\)")

PAGES = (".md", ".png", ".gif", ".ipynb")
"""Endings of files in docs/ that the site has, too."""
SOUNDS = (".mp3", ".wav")


def rewritten(text: str, folder: Path, docs: Path, pages: dict[Path, str]) -> str:
    """Return Markdown of a file in `folder` with its links made absolute in the site.

    Parameters
    ----------
    text
        Markdown.
    folder
        Where its relative links start.
    docs
        Folder of the site's pages.
    pages
        Files outside `docs` and the pages that include them.
    """

    def link(match: re.Match[str]) -> str:
        image, label, path, anchor = match[1], match[2], match[3], match[4] or ""
        if path.startswith("/"):
            return match[0]
        target = Path(os.path.normpath(folder / path))
        if target in pages:
            return f"{image}[{label}](/{pages[target]}{anchor})"
        if target.suffix in SOUNDS:
            return f"{{download}}`{label} </{os.path.relpath(target, docs)}>`"
        if target.is_relative_to(docs) and target.suffix in PAGES:
            return f"{image}[{label}](/{target.relative_to(docs).as_posix()}{anchor})"
        return label

    parts = re.split(r"(^```.*?^```$)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(p if p.startswith("```") else LINK.sub(link, p) for p in parts)


def included(docs: Path) -> dict[Path, str]:
    """Return the files that pages of the site include: file to page."""
    found = {docs.parent / "README.md": "index.md"}
    for page in sorted((docs / "project").glob("*.md")):
        for match in INCLUDE.finditer(page.read_text(encoding="utf-8")):
            file = Path(os.path.normpath(page.parent / match[1]))
            found[file] = page.relative_to(docs).as_posix()
    return found


def read(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace the source of a page."""
    page, docs = Path(app.env.doc2path(docname)), Path(app.srcdir)
    if page.suffix != ".md":
        return
    pages = included(docs)

    def include(match: re.Match[str]) -> str:
        file = Path(os.path.normpath(page.parent / match[1]))
        app.env.note_dependency(str(file))
        return rewritten(file.read_text(encoding="utf-8"), file.parent, docs, pages)

    source[0] = INCLUDE.sub(include, rewritten(source[0], page.parent, docs, pages))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
