"""Small data sets in the file formats of the originals."""

import gzip
import io
import struct
import tarfile
import zipfile

import numpy as np

HEADER = "From: someone@somewhere\nSubject: header words\n\n"


def in_gzip(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def idx(array) -> bytes:
    """Return an array of bytes in MNIST's file format."""
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def digits(labels, seed):
    images = np.random.default_rng(seed).integers(0, 256, (len(labels), 28, 28), np.uint8)
    return images, np.array(labels, np.uint8)


def movielens() -> dict[str, bytes]:
    stream = io.BytesIO()
    lines = [f"{1 + k % 20}::{1 + k * 7 % 3952}::{1 + k % 5}::{978300000 + k}" for k in range(2000)]
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("ml-1m/README", "read me")
        archive.writestr("ml-1m/ratings.dat", "\n".join(lines) + "\n")
    return {"ml-1m.zip": stream.getvalue()}


def newsgroups() -> dict[str, bytes]:
    """Make thirty posts of training and two of test."""
    posts = {
        f"train/sci.space/{k:03}": f"{HEADER}Everywhere the Orbit, rocket-{k} is up."
        for k in range(3)
    }
    posts |= {f"train/rec.autos/{k:03}": f"{HEADER}everywhere a caf\xe9" for k in range(27)}
    posts["test/sci.space/900"] = f"{HEADER}orbit orbit rocket unseen everywhere"
    posts["test/sci.space/901"] = f"{HEADER}unseen"
    posts["train/empty"] = "no body"
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, text in posts.items():
            data = text.encode("latin-1")
            member = tarfile.TarInfo(f"20news-bydate-{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return {"20news-bydate.tar.gz": stream.getvalue()}


def mnist() -> dict[str, bytes]:
    train, test = digits([7, 1, 9, 9, 0], 0), digits([3, 7, 9], 1)
    parts = [("train", *train), ("t10k", *test)]
    return {
        f"{part}-{kind}-idx{array.ndim}-ubyte.gz": in_gzip(idx(array))
        for part, images, labels in parts
        for kind, array in (("images", images), ("labels", labels))
    }


MADE = {
    "ml-1m": movielens,
    "mnist-7v9": mnist,
    "newsgroups": newsgroups,
    "australian-credit": lambda: {
        "australian.dat": b"1 22.08 11.46 2 4 4 1.585 0 0 0 1 2 100 1213 0\n"
        b"0 0.08500 7 2 8 4 0.165 0 0 0 0 2 160 100001 1\n"
    },
    "heart": lambda: {
        "heart.dat": b"70.0 1.0 4.0 130.0 322.0 0.0 2.0 109.0 0.0 2.4 2.0 3.0 3.0 2\n"
        b"67.0 0.0 3.0 115.0 564.0 0.0 2.0 160.0 0.0 1.6 2.0 0.0 7.0 1\n"
    },
}
"""Functions that make the files of each data set, by its name."""
