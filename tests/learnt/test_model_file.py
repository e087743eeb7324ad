"""Models lie in their files as in memory; what is damaged is not read."""

import os
import zipfile

import numpy as np
import pytest

from alphamf.errors import AlphaMFError
from alphamf.learnt import dictionary, model_file, network_file

LIMITS = {"values": 1 << 20, "empty": 1 << 10, "header": 1 << 10}
ARRAYS = {"values": np.arange(300, dtype=np.float16), "empty": np.empty((0, 3), np.float32)}


def write(path):
    model_file.write(path, {"about": {}}, ARRAYS)
    return path


def test_arrays_are_mapped_at_aligned_places(tmp_path):
    path = write(tmp_path / "model.npz")
    found = model_file.read(path, LIMITS)
    values = found["values"]
    assert values.ctypes.data % model_file.ALIGNMENT == 0 and not values.flags.writeable
    base = values
    while not isinstance(base, np.memmap):
        base = base.base
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array)
    np.testing.assert_array_equal(np.load(path)["values"], ARRAYS["values"])


@pytest.mark.parametrize("order", ["C", "F"])
def test_what_numpy_writes_is_read(tmp_path, order):
    values = np.asarray(np.random.default_rng(0).random((4, 5)), order=order)
    for k, save in enumerate((np.savez, np.savez_compressed)):
        save(tmp_path / f"{k}.npz", values=values)
        found = model_file.read(tmp_path / f"{k}.npz", {"values": 1000})
        np.testing.assert_array_equal(found["values"], values)


def test_a_drive_that_maps_no_files(tmp_path, monkeypatch):
    def fail(*arguments):
        raise OSError("no such device")

    path = write(tmp_path / "model.npz")
    monkeypatch.setattr(np, "memmap", fail)
    np.testing.assert_array_equal(model_file.read(path, LIMITS)["values"], ARRAYS["values"])


def test_a_bit_that_has_flipped_is_found(tmp_path):
    path = write(tmp_path / "model.npz")
    with zipfile.ZipFile(path) as archive:
        place = archive.getinfo("values.npy").header_offset + 300
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    with pytest.raises(zipfile.BadZipFile):
        model_file.read(path, LIMITS)


def test_the_checksum_of_a_file_that_has_changed_is_not_known(tmp_path):
    path = tmp_path / "model.npz"
    model = dictionary.load("speech-8k")
    model.save(path)
    loaded = dictionary.load(path)
    model.save(path)
    os.utime(path, (0, 0))
    assert loaded.sha256 == "" and dictionary.load(path).sha256
    gone = dictionary.load(path)
    path.unlink()
    assert gone.sha256 == ""
    with pytest.raises(AlphaMFError, match="unknown model"):
        dictionary.load(path)


def test_shipped_models_can_be_mapped():
    for path in (
        *dictionary.shipped_dictionaries().values(),
        *network_file.shipped_networks().values(),
    ):
        with zipfile.ZipFile(path) as archive:
            assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}
