"""Real data of the experiments, found by name in a local copy."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from alphamf.errors import AlphaMFError
from alphamf.files import reason


@dataclass(frozen=True)
class Corpus:
    """A file of a data set.

    Attributes
    ----------
    path
        Where it lies below ``$ALPHAMF_DATA``.
    sha256
        Of the file that the experiments were run with; empty for a folder.
    home
        Address of the data's own home.
    terms
        Licence or terms of use.
    """

    path: str
    sha256: str
    home: str
    terms: str


CORPORA = {
    "ml-1m": Corpus(
        "datasets/movielens/ml-1m.npz",
        "e4e23ce2c8d968b5719a4b5d95c57ca4bb04b1da3bde2e205b13be33344b28cc",
        "https://grouplens.org/datasets/movielens/1m/",
        "GroupLens: research use, not to be passed on",
    ),
    "mnist-7v9": Corpus(
        "datasets/mnist/mnist_7v9.npz",
        "1271a5e2f9f390dbd42a17a3bad85986f6d7b2a6b9979d532ee02ad78e7eab0a",
        "http://yann.lecun.com/exdb/mnist/",
        "CC BY-SA 3.0",
    ),
    "newsgroups": Corpus(
        "datasets/newsgroups20/avitm1995.npz",
        "2fff953881f3668eadc43b60524c578422a20ad275e31d3ae59fd18c9a378745",
        "http://qwone.com/~jason/20Newsgroups/",
        "none stated; public newsgroup posts",
    ),
    "australian-credit": Corpus(
        "datasets/uci/australian_credit.npz",
        "27e2972d45b85cb8fe21be3e15e1539f3004a99b9979a3f25ffdfe774344b882",
        "https://archive.ics.uci.edu/dataset/143",
        "CC BY 4.0",
    ),
    "heart": Corpus(
        "datasets/uci/statlog_heart.npz",
        "5e1ca341d3b78b45635ea2553a5dbd2a01a57c6a0bd18fbccf8d8b7bfbd13d5c",
        "https://archive.ics.uci.edu/dataset/145",
        "CC BY 4.0",
    ),
    "noizeus": Corpus(
        "corpora/noizeus",
        "",
        "https://ecs.utdallas.edu/loizou/speech/noizeus/",
        "research use",
    ),
}
"""Every corpus by name."""


def find(name: str) -> Path:
    """Return where a corpus lies in the local copy that ``$ALPHAMF_DATA`` names.

    Raises
    ------
    AlphaMFError
        The variable is not set, or the corpus is not there, or is another version of it.
    """
    corpus = CORPORA[name]
    root = os.environ.get("ALPHAMF_DATA")
    if not root:
        raise AlphaMFError(
            f"the data {name} ({corpus.home}; {corpus.terms}) is not part of alphamf: "
            "set ALPHAMF_DATA to a folder that holds a copy"
        )
    path = Path(root, corpus.path)
    if not path.exists():
        raise AlphaMFError(
            f"the data {name} is not at {path}: its home is {corpus.home} ({corpus.terms})"
        )
    if corpus.sha256:
        try:
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise AlphaMFError(f"{path} cannot be read: {reason(error)}") from error
        if found != corpus.sha256:
            raise AlphaMFError(f"{path} is not the file that {name} stands for: its sha256 differs")
    return path
