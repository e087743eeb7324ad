"""The makers' files become the arrays that the experiments read."""

import hashlib
import tempfile
from pathlib import Path

import numpy as np
import pytest

from alphamf.research import conversion
from alphamf.research.corpora import CORPORA
from tests.support.originals import MADE, digits, mnist, movielens, newsgroups


def converted(name, files):
    """Return what a corpus's own function makes of files."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, file) for file in files]
        for path, data in zip(paths, files.values(), strict=True):
            path.write_bytes(data)
        return CORPORA[name].source.convert(*paths)


@pytest.fixture
def local(shared):
    """Give the arrays of the local copy of a corpus."""
    if not (shared / "datasets").is_dir():
        pytest.skip(f"no datasets in {shared}: set ALPHAMF_DATA to the folder that holds them")

    def read(name):
        with np.load(shared / CORPORA[name].path) as file:
            return dict(file)

    return read


def test_movielens():
    got = converted("ml-1m", movielens())
    k = np.arange(2000)
    np.testing.assert_array_equal(got["user"], 1 + k % 20)
    np.testing.assert_array_equal(got["item"], 1 + k * 7 % 3952)
    np.testing.assert_array_equal(got["rating"], 1 + k % 5)
    assert got["probe"].sum() == 200
    assert 60 < got["probe"][:1000].sum() < 140
    # This very split, on every machine.
    assert np.flatnonzero(got["probe"])[:5].tolist() == [9, 10, 32, 34, 42]
    assert round(conversion.PROBE * 1_000_209) == 100_209


def test_mnist():
    got = converted("mnist-7v9", mnist())
    images, _ = digits([7, 1, 9, 9, 0], 0)
    np.testing.assert_array_equal(got["x_train"], images[[0, 2, 3]])
    np.testing.assert_array_equal(got["y_train"], [7, 9, 9])
    np.testing.assert_array_equal(got["x_test"], digits([3, 7, 9], 1)[0][1:])
    np.testing.assert_array_equal(got["y_test"], [7, 9])


def test_newsgroups():
    """Words of headers, of one or two letters, in many posts, or in test posts alone are out."""
    got = converted("newsgroups", newsgroups())
    assert got["vocab"].tolist() == ["orbit", "rocket", "the"]
    assert got["shape"].tolist() == [4, 3] and got["n_train"] == 3
    rows = np.split(np.arange(len(got["data"])), got["indptr"][1:-1])
    table = [
        dict(zip(got["indices"][row].tolist(), got["data"][row].tolist(), strict=True))
        for row in rows
    ]
    assert table == [{0: 1, 1: 1, 2: 1}] * 3 + [{0: 2, 1: 1}]


def test_tables_of_features():
    got = converted("australian-credit", MADE["australian-credit"]())
    assert got["X"].shape == (2, 14) and got["X"][1, 1] == 0.085 and got["X"][1, 13] == 100001
    assert got["y"].tolist() == [0, 1] and got["names"].tolist() == [f"A{k}" for k in range(1, 15)]
    got = converted("heart", MADE["heart"]())
    assert got["X"].shape == (2, 13) == (2, len(got["names"])) and got["X"][0, 9] == 2.4
    assert got["y"].tolist() == [1, 0]


def test_the_local_copies_come_out_of_the_makers_files(local):
    """The UCI tables are written as their makers write them, which their checksums prove."""
    special = {0.085: "0.08500", 9.46: "9.460", 8.46: "8.460", 9.96: "9.960", 100001: "100001"}
    forms = {
        "australian-credit": (lambda x: special.get(x) or f"{x:g}", 0),
        "heart": (lambda x: f"{x:.1f}", 1),
    }
    for name, (form, first) in forms.items():
        wanted = local(name)
        lines = [
            " ".join([*map(form, row), str(label + first)]) + "\n"
            for row, label in zip(wanted["X"].tolist(), wanted["y"].tolist(), strict=True)
        ]
        data = "".join(lines).encode()
        (original,) = CORPORA[name].source.originals
        assert hashlib.sha256(data).hexdigest() == original.sha256
        got = converted(name, {original.name: data})
        for key in wanted:
            np.testing.assert_array_equal(got[key], wanted[key])
