"""Find the data sets of the experiments: use a local copy, or download and convert them."""

import hashlib
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.research import conversion
from alphamf.tools.files import atomic_file, file_errors, printable_name, reason

SECONDS = 30
"""Timeout of a download, in seconds without data from the server."""


@dataclass(frozen=True)
class PublishedFile:
    """A file to download: where it is, and how to verify it."""

    name: str  # Name of the file in the cache
    sha256: str  # Checksum
    addresses: tuple[str, ...]  # URLs, tried in order: its home, then mirrors


def cache() -> Path:
    """Return the user's folder for downloads, which may not exist."""
    import pooch

    return Path(pooch.os_cache("alphamf"))


def download(original: PublishedFile, folder: Path) -> Path:
    """Return the file's path in `folder`, after a download if needed, or raise an AlphaMFError."""
    import pooch
    from requests import HTTPError, RequestException, Timeout

    pooch.get_logger().setLevel("WARNING")
    reasons = []
    for address in original.addresses:
        host = urlsplit(address).netloc
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path = pooch.retrieve(
                address,
                original.sha256,
                fname=original.name,
                path=folder,
                downloader=pooch.HTTPDownloader(timeout=SECONDS),
            )
        except HTTPError as error:
            answer = "an error" if error.response is None else error.response.status_code
            reasons.append(f"{host} answered {answer}")
        except Timeout:
            reasons.append(f"{host} did not answer")
        except RequestException:
            reasons.append(f"no connection to {host}")
        except ValueError:
            reasons.append(f"{host} returned a file that differs from {original.name}")
        except OSError as error:
            raise AlphaMFError(
                f"{printable_name(folder)} cannot be written: {reason(error)}"
            ) from error
        else:
            return Path(path)
    raise AlphaMFError(", ".join(reasons))


@dataclass(frozen=True)
class DataSource:
    """A description of how the file of a data set is made from the published files."""

    # The published files, in the order of the parameters of `convert`.
    originals: tuple[PublishedFile, ...]
    convert: Callable[..., conversion.Arrays]  # Returns arrays with the file's names and types
    unlike: str = ""  # How these arrays differ from the file's; empty if they do not


@dataclass(frozen=True)
class Corpus:
    """A file or a folder of a data set."""

    path: str  # Relative to ``$ALPHAMF_DATA``
    sha256: str  # SHA-256 of the file behind the published results; empty for a folder
    home: str  # Address of the data's home page
    terms: str  # Licence or terms of use
    # How the file is made; None if no checksum of an original is published.
    source: DataSource | None = None
    # Columns of the MANIFEST.csv that lists the recordings of a folder.
    columns: tuple[str, ...] = ()


_SUMS = {
    "ml-1m.zip": "a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
    "train-images-idx3-ubyte.gz": (
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"
    ),
    "train-labels-idx1-ubyte.gz": (
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"
    ),
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    "20news-bydate.tar.gz": "8f1b2514ca22a5ade8fbb9cfa5727df95fa587f4c87b786e15c759fa66d95610",
    "australian.dat": "3abe5af151afa50b999a9ba21cbc884e80d80a4050b716cf88b34a2e6ecb731c",
    "heart.dat": "f5f3b4204c285bafadd85cb735f38b47689f2be7047feb172dcbeab648110bf9",
}
"""SHA-256 checksums of the published files, by name."""

_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/statlog"


def _published(name: str, *folders: str) -> PublishedFile:
    """Return the file `name`, which can be downloaded from any of these web folders."""
    return PublishedFile(name, _SUMS[name], tuple(f"{folder}/{name}" for folder in folders))


_MNIST = ("http://yann.lecun.com/exdb/mnist", "https://ossci-datasets.s3.amazonaws.com/mnist")

CORPORA = {
    "ml-1m": Corpus(
        "datasets/movielens/ml-1m.npz",
        "e4e23ce2c8d968b5719a4b5d95c57ca4bb04b1da3bde2e205b13be33344b28cc",
        "https://grouplens.org/datasets/movielens/1m/",
        "GroupLens: for research, no redistribution",
        DataSource(
            (_published("ml-1m.zip", "https://files.grouplens.org/datasets/movielens"),),
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
            tuple(_published(name, *_MNIST) for name in _SUMS if "ubyte" in name),
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
                    _SUMS["20news-bydate.tar.gz"],
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
            (_published("australian.dat", f"{_UCI}/australian"),), conversion.australian_credit
        ),
    ),
    "heart": Corpus(
        "datasets/uci/statlog_heart.npz",
        "5e1ca341d3b78b45635ea2553a5dbd2a01a57c6a0bd18fbccf8d8b7bfbd13d5c",
        "https://archive.ics.uci.edu/dataset/145",
        "CC BY 4.0",
        DataSource((_published("heart.dat", f"{_UCI}/heart"),), conversion.heart),
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


_LOGGER = logging.getLogger(__name__)


def find(name: str) -> Path:
    """Return the path of a corpus: in the folder given by ``$ALPHAMF_DATA``, or downloaded.

    Downloads are checked, converted and cached. On failure an AlphaMFError is raised.
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
    """Return `path`; raise an AlphaMFError unless `sha256` is empty or the file's checksum."""
    if sha256:
        with file_errors(path, "read"), path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != sha256:
            raise AlphaMFError(f"{path} is not the expected file for {name}: its sha256 differs")
    return path


def _make(name: str, corpus: Corpus, source: DataSource, path: Path) -> None:
    """Download the originals if needed, convert them, and write the arrays to `path`."""
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
