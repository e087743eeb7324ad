"""Data sets of the experiments: their files, home pages, licences and checksums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from alphamf.research import conversion
from alphamf.research.download import PublishedFile


@dataclass(frozen=True)
class DataSource:
    """Describes how the file of a data set is made from the published files."""

    # The published files, in the order of the parameters of `convert`.
    originals: tuple[PublishedFile, ...]
    convert: Callable[..., conversion.Arrays]  # Returns arrays of the same names and types
    unlike: str = ""  # How these arrays differ from those of the file; empty if they do not


@dataclass(frozen=True)
class Corpus:
    """A file of a data set."""

    path: str  # Relative to ``$ALPHAMF_DATA``
    sha256: str  # SHA-256 of the file of published results; empty for a folder
    home: str  # Address of the data's own home
    terms: str  # Licence or terms of use
    # Function that makes the file; None if no checksum of an original is published.
    source: DataSource | None = None
    # Columns of the MANIFEST.csv that lists the recordings of a folder.
    columns: tuple[str, ...] = ()


def _mnist(name: str, sha256: str) -> PublishedFile:
    homes = ("http://yann.lecun.com/exdb", "https://ossci-datasets.s3.amazonaws.com")
    file = f"{name}-ubyte.gz"
    return PublishedFile(file, sha256, tuple(f"{home}/mnist/{file}" for home in homes))


_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/statlog"

CORPORA = {
    "ml-1m": Corpus(
        "datasets/movielens/ml-1m.npz",
        "e4e23ce2c8d968b5719a4b5d95c57ca4bb04b1da3bde2e205b13be33344b28cc",
        "https://grouplens.org/datasets/movielens/1m/",
        "GroupLens: for research, no redistribution",
        DataSource(
            (
                PublishedFile(
                    "ml-1m.zip",
                    "a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
                    ("https://files.grouplens.org/datasets/movielens/ml-1m.zip",),
                ),
            ),
            conversion.movielens,
            "the probe ratings are drawn at random and differ from those of the papers",
        ),
    ),
    "mnist-7v9": Corpus(
        "datasets/mnist/mnist_7v9.npz",
        "1271a5e2f9f390dbd42a17a3bad85986f6d7b2a6b9979d532ee02ad78e7eab0a",
        "http://yann.lecun.com/exdb/mnist/",
        "CC BY-SA 3.0",
        DataSource(
            (
                _mnist(
                    "train-images-idx3",
                    "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                ),
                _mnist(
                    "train-labels-idx1",
                    "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                ),
                _mnist(
                    "t10k-images-idx3",
                    "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                ),
                _mnist(
                    "t10k-labels-idx1",
                    "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
                ),
            ),
            conversion.sevens_and_nines,
        ),
    ),
    "newsgroups": Corpus(
        "datasets/newsgroups20/avitm1995.npz",
        "2fff953881f3668eadc43b60524c578422a20ad275e31d3ae59fd18c9a378745",
        "http://qwone.com/~jason/20Newsgroups/",
        "none stated; public newsgroup posts",
        DataSource(
            (
                PublishedFile(
                    "20news-bydate.tar.gz",
                    "8f1b2514ca22a5ade8fbb9cfa5727df95fa587f4c87b786e15c759fa66d95610",
                    (
                        "http://qwone.com/~jason/20Newsgroups/20news-bydate.tar.gz",
                        "https://ndownloader.figshare.com/files/5975967",
                    ),
                ),
            ),
            conversion.newsgroups,
            "the vocabulary differs from that of the figures in docs/experiments",
        ),
    ),
    "reuters": Corpus(
        "datasets/reuters21578/counts10000.npz",
        "3b67e4c29e3d4232a505335b4670d6fa853960b54821e05bb8925e2986a890b6",
        "http://www.daviddlewis.com/resources/testcollections/reuters21578/",
        "copyright of Reuters Ltd, free for research",
    ),
    "australian-credit": Corpus(
        "datasets/uci/australian_credit.npz",
        "27e2972d45b85cb8fe21be3e15e1539f3004a99b9979a3f25ffdfe774344b882",
        "https://archive.ics.uci.edu/dataset/143",
        "CC BY 4.0",
        DataSource(
            (
                PublishedFile(
                    "australian.dat",
                    "3abe5af151afa50b999a9ba21cbc884e80d80a4050b716cf88b34a2e6ecb731c",
                    (f"{_UCI}/australian/australian.dat",),
                ),
            ),
            conversion.australian_credit,
        ),
    ),
    "heart": Corpus(
        "datasets/uci/statlog_heart.npz",
        "5e1ca341d3b78b45635ea2553a5dbd2a01a57c6a0bd18fbccf8d8b7bfbd13d5c",
        "https://archive.ics.uci.edu/dataset/145",
        "CC BY 4.0",
        DataSource(
            (
                PublishedFile(
                    "heart.dat",
                    "f5f3b4204c285bafadd85cb735f38b47689f2be7047feb172dcbeab648110bf9",
                    (f"{_UCI}/heart/heart.dat",),
                ),
            ),
            conversion.heart,
        ),
    ),
    "noizeus": Corpus(
        "corpora/noizeus",
        "",
        "https://ecs.utdallas.edu/loizou/speech/noizeus/",
        "research use",
        columns=("path", "speaker", "split", "snr_db", "noise"),
    ),
}
"""Every corpus by name."""
