"""Convert published data sets to the arrays of the experiments."""

import gzip
import re
import tarfile
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from alphamf.inference.random import generator

Arrays = dict[str, Any]
"""NumPy arrays by name."""

PROBE = 100_209 / 1_000_209
"""Fraction of the ratings in the probe set."""

VOCABULARY = 2000
COMMON = 0.1
"""Number of words of the newsgroups' vocabulary, and the largest proportion of training posts that
may contain such a word."""

HEART = (
    *("age", "sex", "chest_pain_type", "rest_blood_pr", "serum_chol", "fast_blood_sugar"),
    *("rest_elec_card_graph", "max_heart_rate", "angina", "oldpeak", "peak_exercise_slope"),
    *("major_vessels", "thal"),
)


def movielens(archive: Path) -> Arrays:
    """Read the ratings of MovieLens 1M, in the file's order.

    `probe` is true for 100 209 of them, drawn at random: as many as in the split that came with
    the code of Salakhutdinov and Mnih's papers, which is not published with the ratings.
    """
    with zipfile.ZipFile(archive) as folder, folder.open("ml-1m/ratings.dat") as file:
        # User::Item::Rating::Timestamp, so that every other field between colons is empty.
        table = np.loadtxt(file, np.int32, delimiter=":", usecols=(0, 2, 4), ndmin=2)
    user, item, rating = table.T
    # From the bit generator alone, whose numbers are the same in all versions of NumPy.
    order = np.argsort(generator(0).bit_generator.random_raw(len(table)), kind="stable")
    probe = np.zeros(len(table), bool)
    probe[order[: round(PROBE * len(table))]] = True
    return {
        "user": user.astype(np.int16),
        "item": item.astype(np.int16),
        "rating": rating.astype(np.int8),
        "probe": probe,
    }


def sevens_and_nines(*files: Path) -> Arrays:
    """Read the digits 7 and 9 of MNIST; `files`: training images and labels, then the test's."""
    arrays = {}
    names = ("x_train", "y_train", "x_test", "y_test")
    for name, file in zip(names, files, strict=True):
        with gzip.open(file) as stream:
            data = stream.read()
        # Two zeros, the type (8: bytes) and the number of axes; then their lengths, high byte
        # first.
        axes = data[3]
        shape = np.frombuffer(data, ">i4", axes, 4)
        arrays[name] = np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(shape)
    for part in ("train", "test"):
        wanted = np.isin(arrays[f"y_{part}"], (7, 9))
        for axis in "xy":
            arrays[f"{axis}_{part}"] = arrays[f"{axis}_{part}"][wanted]
    return arrays


def newsgroups(archive: Path) -> Arrays:
    """Count the words of 20 Newsgroups, split by date; posts without counted words are dropped.

    Counted are words of three or more letters below the headers: of those that are in at most a
    tenth of the training posts, the 2000 most frequent ones there.
    """
    posts = _posts(archive)
    vocabulary = _vocabulary(posts["train"])
    place = {word: k for k, word in enumerate(vocabulary)}
    rows = {
        part: [
            row for post in several if (row := {place[w]: n for w, n in post.items() if w in place})
        ]
        for part, several in posts.items()
    }
    every = [*rows["train"], *rows["test"]]
    return {
        "data": np.array([row[k] for row in every for k in sorted(row)], np.int16),
        "indices": np.array([k for row in every for k in sorted(row)], np.int16),
        "indptr": np.cumsum([0, *map(len, every)], dtype=np.int32),
        "shape": np.array([len(every), len(vocabulary)]),
        "n_train": np.array(len(rows["train"])),
        "vocab": np.array(vocabulary),
    }


def _posts(archive: Path) -> dict[str, list[Counter[str]]]:
    """Return the word counts of each post in ``train`` and ``test``, with posts ordered by name."""
    found: dict[str, Counter[str]] = {}
    with tarfile.open(archive, "r:gz") as files:
        # In the archive's order, because seeking back would decompress it from the start.
        for member in files:
            file = files.extractfile(member)
            if file is not None:
                body = file.read().decode("latin-1").partition("\n\n")[2].lower()
                found[member.name] = Counter(re.findall("[a-z]{3,}", body))
    posts: dict[str, list[Counter[str]]] = {"train": [], "test": []}
    for name in sorted(found):
        posts[name.partition("/")[0].rpartition("-")[2]].append(found[name])
    return posts


def _vocabulary(posts: list[Counter[str]]) -> list[str]:
    """Return the `VOCABULARY` most frequent words, except those in too many posts (`COMMON`)."""
    spread = Counter(word for post in posts for word in post)
    total: Counter[str] = Counter()
    for post in posts:
        total.update(post)
    most = COMMON * len(posts)
    fit = [word for word in total if spread[word] <= most]
    return sorted(fit, key=lambda word: (-total[word], word))[:VOCABULARY]


def australian_credit(table: Path) -> Arrays:
    """Read ``australian.dat``: 14 features and a class of 0 or 1."""
    values = np.loadtxt(table, ndmin=2)
    names = [f"A{k}" for k in range(1, values.shape[1])]
    return {"X": values[:, :-1], "y": values[:, -1].astype(np.int8), "names": np.array(names)}


def heart(table: Path) -> Arrays:
    """Read ``heart.dat``: 13 features and a class of 1 or 2, converted to 0 or 1."""
    values = np.loadtxt(table, ndmin=2)
    return {"X": values[:, :-1], "y": (values[:, -1] - 1).astype(np.int8), "names": np.array(HEART)}
