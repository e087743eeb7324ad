"""Find the data sets of the experiments: in a local copy, or by download."""

from __future__ import annotations

import hashlib
import logging
import os
from pathlib import Path

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.research.download import cache, download
from alphamf.research.sources import CORPORA, Corpus, DataSource
from alphamf.tools.files import atomic_file, file_errors, printable_name

_LOGGER = logging.getLogger(__name__)


def find(name: str) -> Path:
    """Return the path of a corpus: in the folder given by ``$ALPHAMF_DATA``, or downloaded.

    Downloads are checked, and kept in the user's cache together with the converted arrays.
    """
    corpus = CORPORA[name]
    root = os.environ.get("ALPHAMF_DATA")
    where = "is not part of alphamf"
    if root:
        path = Path(root, corpus.path)
        if path.exists():
            return _checked(name, path, corpus.sha256)
        where = f"is not at {printable_name(path)}"
    title = f"the data {name} ({corpus.home}; {corpus.terms})"
    advice = f"set ALPHAMF_DATA to a folder that holds {corpus.path}"
    if corpus.source is None:
        work = "count its words as docs/experiments/mass_em.md says"
        if corpus.columns:
            columns = ", ".join(corpus.columns)
            work = f"list its recordings in a MANIFEST.csv with the columns {columns}"
        raise AlphaMFError(
            f"{title} {where}; it cannot be downloaded automatically because no checksum is "
            f"published. Get it from its home page, {work}, and {advice}"
        )
    made = cache() / f"{name}.npz"
    if not made.exists():
        try:
            _make(name, corpus, corpus.source, made)
        except AlphaMFError as error:
            files = " and ".join(original.name for original in corpus.source.originals)
            raise AlphaMFError(
                f"{title} {where} and cannot be downloaded ({error}): put {files} into "
                f"{printable_name(made.parent)}, or {advice}"
            ) from error
    return made


def _checked(name: str, path: Path, sha256: str) -> Path:
    """Return `path` if its checksum is right; folders are not checked."""
    if sha256:
        with file_errors(path, "read"), path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != sha256:
            raise AlphaMFError(f"{path} is not the expected file for {name}: its sha256 differs")
    return path


def _make(name: str, corpus: Corpus, source: DataSource, path: Path) -> None:
    """Download the originals if needed, convert them, and write the arrays."""
    if not all((path.parent / original.name).exists() for original in source.originals):
        unlike = f"; {source.unlike}" if source.unlike else ""
        _LOGGER.warning(
            "Downloading %s (%s) from %s into %s%s",
            name,
            corpus.terms,
            corpus.home,
            printable_name(path.parent),
            unlike,
        )
    arrays = source.convert(*(download(original, path.parent) for original in source.originals))
    with file_errors(path, "written"), atomic_file(path) as part, part.open("wb") as file:
        np.savez_compressed(file, **arrays)
