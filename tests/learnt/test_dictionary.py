"""Dictionaries survive their file, and no other file passes for one."""

import io
import json
import pickle
import zipfile
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alphamf.audio.stft import Frame
from alphamf.errors import AlphaMFError
from alphamf.learnt import bands, dictionary
from alphamf.learnt.dictionary import Dictionary, choose, load

FRAME, CONTEXT = Frame(16, 4), 2
ROWS = CONTEXT * 9


def make(rank=5, seed=0, spread=1.0):
    """Return a small dictionary; `spread` is how many decades its entries cover."""
    rng = np.random.default_rng(seed)
    basis = 10 ** (-spread * rng.random((ROWS, rank), np.float32))
    return Dictionary(
        basis / basis.sum(0), 1.2, 8000, FRAME, CONTEXT, {"by": "Ä. Nonym", "files": 3}
    )


@settings(
    deadline=None,
    derandomize=True,
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(rank=st.integers(1, 8), seed=st.integers(0, 99), spread=st.floats(0, 12))
def test_round_trip(tmp_path, rank, seed, spread):
    """Within half precision of each entry, and of the column's largest for tiny entries."""
    made = make(rank, seed, spread)
    made.save(tmp_path / "made.npz")
    back = load(tmp_path / "made.npz")
    assert back.basis.dtype == np.float32
    np.testing.assert_allclose(back.basis.sum(0), 1, rtol=1e-5)
    slack = 2.0**-24 * made.basis.max(0, keepdims=True)
    assert (np.abs(back.basis - made.basis) <= 2.0**-10 * made.basis + slack).all()
    for field in fields(made):
        if field.compare and field.name != "basis":
            assert getattr(back, field.name) == getattr(made, field.name)
    assert (back.rank, back.bins) == (rank, 9)
    back.save(tmp_path / "again.npz")
    np.testing.assert_allclose(load(tmp_path / "again.npz").basis, back.basis, atol=1e-3)


def test_choice_by_rate():
    for rate in (4000, 8000):
        assert choose("auto", rate).rate == 8000
    for rate in (8001, 16000, 48000):
        assert choose("auto", rate).rate == 16000
    model = choose("speech-8k", 48000)
    assert (model.rate, model.name) == (8000, "speech-8k")


@pytest.mark.parametrize("name", ["nothing.npz", "speech-9k", "", "."])
def test_no_such_model(name, empty):
    with pytest.raises(AlphaMFError, match="speech-8k") as caught:
        load(name)
    assert repr(name) in str(caught.value)


WRONG_PARTS = {
    "rows": {"basis": np.ones((ROWS - 1, 5), np.float32)},
    "no columns": {"basis": np.ones((ROWS, 0), np.float32)},
    "one axis": {"basis": np.ones(ROWS, np.float32)},
    "NaN": {"basis": np.full((ROWS, 5), np.nan, np.float32)},
    "infinite": {"basis": np.full((ROWS, 5), np.inf, np.float32)},
    "negative": {"basis": np.full((ROWS, 5), -1, np.float32)},
    "an empty column": {"basis": np.eye(ROWS, 5, dtype=np.float32) * np.float32([0, 1, 1, 1, 1])},
    "alpha": {"alpha": 2.5},
    "rate": {"rate": 0},
    "context": {"context": 3},
    "context 0": {"context": 0, "basis": np.ones((0, 5), np.float32)},
    "window": {"frame": Frame(32, 8)},
    "negative window": {"frame": Frame(-6, 1), "context": -1, "basis": np.ones((2, 5), np.float32)},
    "hop 0": {"frame": Frame(16, 0)},
    "hop beyond half a window": {"frame": Frame(16, 9)},
    "hop that does not divide the window": {"frame": Frame(16, 5)},
    "odd window": {"frame": Frame(17, 1), "context": 2},
    "window of more than a second": {"rate": 15},
    "too many cells in a second": {"rate": 300_000},
}


@pytest.mark.parametrize("parts", WRONG_PARTS.values(), ids=WRONG_PARTS)
def test_parts_that_do_not_fit(parts):
    with pytest.raises(AlphaMFError):
        replace(make(), **parts)


HEADER = {
    "format": 1,
    "alpha": 1.2,
    "rate": 8000,
    "n_fft": 16,
    "hop_length": 4,
    "context": CONTEXT,
    "about": {},
}


def write(path, basis=None, header=None, text=None):
    """Write a file like a model's, with another basis, header entries or header."""
    basis = make().basis if basis is None else basis
    text = json.dumps(HEADER | (header or {})) if text is None else text
    np.savez(path, basis=basis, header=np.array(text))
    return path


def refuse(path):
    """Check that the file is refused in one sentence that names it."""
    with pytest.raises(AlphaMFError) as caught:
        load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


VALUES = [None, "x", [], {}, -1, 0, 10**12, -(10**12), 10**400]
VALUES += [float("nan"), float("inf"), -float("inf")]


@pytest.mark.parametrize("key", sorted(HEADER.keys() - {"about"}))
def test_wrong_header(tmp_path, key):
    for value in VALUES:
        refuse(write(tmp_path / "model.npz", header={key: value}))


@pytest.mark.parametrize(
    "text",
    ["", "{", "null", "[]", '"text"', '{"format": 1}', "[" * 100_000, b"bytes", 3.0],
    ids=lambda text: str(text)[:16],
)
def test_header_that_is_none(tmp_path, text):
    refuse(write(tmp_path / "model.npz", text=text))


WRONG_BASES = {
    "infinite as float32": np.full((ROWS, 5), 1e300),
    "a sum beyond float32": np.full((ROWS, 5), 3e38, np.float32),
    "complex": np.ones((ROWS, 5), complex),
    "text": np.full((ROWS, 5), "a"),
    "dates": np.zeros((ROWS, 5), "M8[s]"),
    "records": np.zeros((ROWS, 5), [("a", "f4")]),
    "pickled": np.full((ROWS, 5), {}, object),
}


@pytest.mark.parametrize("basis", WRONG_BASES.values(), ids=WRONG_BASES)
def test_wrong_basis(tmp_path, basis):
    """What a file may hold beside `WRONG_PARTS`."""
    refuse(write(tmp_path / "model.npz", basis=basis))


class Trap:
    """An object whose unpickling would be noticed."""

    sprung = False

    def __reduce__(self):
        return (setattr, (Trap, "sprung", True))


def test_nothing_is_unpickled(tmp_path):
    refuse(write(tmp_path / "model.npz", basis=np.array([[Trap()]], object)))
    refuse(write(tmp_path / "header.npz", text=np.array(Trap(), object)))
    (tmp_path / "bare.npz").write_bytes(pickle.dumps(Trap()))
    refuse(tmp_path / "bare.npz")
    assert not Trap.sprung


def test_other_files(tmp_path):
    for name, data in {"text": b"Not a model.\n", "nothing": b"", "zip": b"PK\x03\x04"}.items():
        (tmp_path / name).write_bytes(data)
        refuse(tmp_path / name)
    np.save(tmp_path / "array.npy", np.ones((ROWS, 5)))
    refuse(tmp_path / "array.npy")
    np.savez(tmp_path / "other.npz", something=np.ones(3))
    refuse(tmp_path / "other.npz")


def test_damaged_files(tmp_path):
    """Every end cut off, and bytes changed at random, load or are refused."""
    path = tmp_path / "model.npz"
    make().save(path)
    data = path.read_bytes()
    for length in range(0, len(data), 17):
        path.write_bytes(data[:length])
        refuse(path)
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(600):
        damaged = bytearray(data)
        for at in rng.integers(len(data), size=rng.integers(1, 5)):
            damaged[at] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            load(path)
        except AlphaMFError as error:
            assert str(path) in str(error)
            refused += 1
    assert refused > 300


def test_a_file_that_would_unpack_to_too_much(tmp_path, monkeypatch):
    """By its directory it is refused, before a byte is read."""
    monkeypatch.setitem(dictionary.MAX_BYTES, "basis", 100_000)
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("basis.npy", bytes(200_000))
    assert path.stat().st_size < 1000
    with pytest.raises(AlphaMFError, match="would unpack to 200000 bytes"):
        load(path)


@pytest.mark.parametrize("shape", [(10**9, 10**6), (10**13, 10**13), (2**31, 2**31)], ids=str)
def test_an_array_that_claims_to_be_huge(tmp_path, shape):
    array = io.BytesIO()
    header = {"descr": "<f2", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(array, header)
    path = write(tmp_path / "model.npz")
    with zipfile.ZipFile(path) as archive:
        text = archive.read("header.npy")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("basis.npy", array.getvalue() + bytes(100))
        archive.writestr("header.npy", text)
    refuse(path)


@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_packings_that_unpack_without_bound(tmp_path, packing):
    path = write(tmp_path / "model.npz")
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    with pytest.raises(AlphaMFError, match="has a compression that numpy does not use"):
        load(path)


def with_rows(rank=5, scale=1e-3):
    """Return the small dictionary with rows of the bands above."""
    rng = np.random.default_rng(1)
    above = (scale * rng.random((CONTEXT * bands.ABOVE, rank))).astype(np.float32)
    return replace(make(rank), above=above)


def test_rows_above_follow_the_bins_of_each_frame():
    made = with_rows()
    wide = made.with_bands(3)
    assert (wide.bins, made.bins, wide.above) == (12, 9, None)
    frames = wide.basis.reshape(CONTEXT, 12, -1)
    np.testing.assert_array_equal(frames[:, :9].reshape(ROWS, -1), made.basis)
    rows = made.above.reshape(CONTEXT, bands.ABOVE, -1)
    np.testing.assert_array_equal(frames[:, 9:], rows[:, :3])
    assert made.with_bands(0) is made
    with pytest.raises(AlphaMFError, match="has no rows above its band"):
        make().with_bands(1)


def test_rows_above_survive_the_file_in_the_columns_units(tmp_path):
    made = with_rows(scale=1e-9)  # far below half precision
    made.save(tmp_path / "made.npz")
    back = load(tmp_path / "made.npz")
    np.testing.assert_allclose(back.above, made.above, rtol=2e-3)
    make().save(tmp_path / "without.npz")
    assert load(tmp_path / "without.npz").above is None


@pytest.mark.parametrize(
    ("above", "sentence"),
    [
        (np.ones((3, 5), np.float32), "must have the shape"),
        (np.full((CONTEXT * bands.ABOVE, 5), -1, np.float32), "finite and not negative"),
        (np.full((CONTEXT * bands.ABOVE, 5), np.nan, np.float32), "finite and not negative"),
    ],
)
def test_rows_above_that_do_not_fit_are_refused(above, sentence):
    with pytest.raises(AlphaMFError, match=sentence):
        replace(make(), above=above)
