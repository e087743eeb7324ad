"""Damaged and hostile model files."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.attacks.mutants import mutate


class Bomb:
    """An object whose unpickling ends the process."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the call that ends the process."""
        import os

        return os._exit, (66,)


ABOUT = {"format": 1, "alpha": 1.0, "rate": 8000, "n_fft": 256, "hop_length": 64, "context": 2}


def model(basis: Any = None, text: str | None = None, **header: Any) -> bytes:
    """Return a model file with that W, and that header text or changed header entries."""
    if basis is None:
        basis = np.random.default_rng(0).random((2 * 129, 3)).astype(np.float16)
    text = json.dumps({**ABOUT, "about": {}, **header}) if text is None else text
    data = io.BytesIO()
    np.savez_compressed(data, basis=basis, header=np.array(text))
    return data.getvalue()


def models(rng: np.random.Generator) -> Iterator[tuple[str, bytes]]:
    """Yield kinds of damaged or hostile models, without end."""
    values = (0, -1, 1, 2, 3, 0.5, 1e30, 1e308, 2**31, 2**63, 10**400, None, "8000", [], {}, True)
    dtypes = ("f2", "f4", "f8", ">f4", "i4", "u1", "?", "c8", "S5", "U5", "f16", "M8[s]")
    plain = model()
    while True:
        yield "model, bytes", mutate(rng, plain, plain)
        changes = {
            str(key): values[rng.integers(len(values))]
            for key in rng.choice([*ABOUT, "about"], rng.integers(1, 4))
        }
        yield "model, header", model(**changes)
        text = mutate(rng, json.dumps({**ABOUT, "about": {}}).encode(), b'[[[{"":NaN,1e999')
        yield "model, header", model(text=text.decode("latin-1"))
        yield "model, header", model(text="[" * int(10 ** rng.uniform(1, 6)))
        shape = tuple(int(n) for n in rng.integers(0, 300, rng.integers(0, 4)))
        yield "model, shape", model(np.ones(shape[:3], np.float16))
        dtype = np.dtype(dtypes[rng.integers(len(dtypes))])
        yield "model, dtype", model(np.zeros((258, 3), dtype))
        yield "model, numbers", model(_numbers(rng))
        yield "model, pickle", _pickled(rng)
        yield "model, bomb", _bomb(rng)
        yield "model, array header", _lie(rng)
        yield "model, odd but whole", _odd(rng)


def _odd(rng: np.random.Generator) -> bytes:
    """Return a consistent model of unusual sizes and levels."""
    n_fft, context, rank = (int(10 ** rng.uniform(0, top)) for top in (3.7, 1, 1.5))
    rate = int(10 ** rng.uniform(0, 5.8)) + n_fft * int(rng.integers(2))
    n_fft = 24 * (1 + n_fft // 24) if rng.random() < 0.8 else n_fft
    hop = max(1, n_fft // int(rng.choice([2, 3, 4, 4, 8, 100])))
    level = 10 ** rng.uniform(-9, 4.5, (1, rank))
    basis = level * rng.random((context * (n_fft // 2 + 1), rank)) ** int(rng.integers(1, 9))
    form = {"n_fft": n_fft, "hop_length": hop, "context": context, "rate": rate}
    return model(
        basis.astype([np.float16, np.float32, np.float64][rng.integers(3)]),
        alpha=float(rng.choice([0.5, 1.0, 2.0, rng.random() * 2])),
        **form,
    )


def _numbers(rng: np.random.Generator) -> Any:
    dtype = [np.float16, np.float32, np.float64][rng.integers(3)]
    basis = rng.random((258, 3)).astype(dtype)
    top = float(np.finfo(dtype).max)
    bad = (np.nan, np.inf, -np.inf, -1.0, 0.0, top, float(np.finfo(dtype).smallest_subnormal))
    for _ in range(rng.integers(1, 300)):
        basis[rng.integers(258), rng.integers(3)] = bad[rng.integers(len(bad))]
    return basis


def _pickled(rng: np.random.Generator) -> bytes:
    if rng.random() < 0.3:
        return pickle.dumps(Bomb())
    return model(np.array([[Bomb()] * 3] * 258, object))


def _zip(kind: int, **entries: bytes) -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", kind) as archive:
        for name, content in entries.items():
            archive.writestr(f"{name}.npy", content)
    return data.getvalue()


def _array(shape: tuple[int, ...], content: bytes, dtype: str = "<f2") -> bytes:
    data = io.BytesIO()
    header = {"descr": dtype, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(data, header)
    return data.getvalue() + content


def _bomb(rng: np.random.Generator) -> bytes:
    """Return a small archive of large arrays, in any compression, half with a false directory."""
    rows = int(10 ** rng.uniform(4, 6.7))
    kind = (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)[rng.integers(3)]
    header = io.BytesIO()
    np.save(header, np.array(json.dumps({**ABOUT, "about": {}})))
    data = bytearray(_zip(kind, basis=_array((rows, 3), bytes(6 * rows)), header=header.getvalue()))
    if rng.random() < 0.5:  # the directory's size of the first entry
        at = data.rfind(b"PK\x01\x02", 0, data.rfind(b"PK\x01\x02"))
        data[at + 24 : at + 28] = int(rng.integers(1, 2000)).to_bytes(4, "little")
    return bytes(data)


def _lie(rng: np.random.Generator) -> bytes:
    """Return a model whose array differs from its header in shape or type."""
    shape = tuple(int(10 ** rng.uniform(0, 13)) for _ in range(rng.integers(1, 4)))
    dtype = str(rng.choice(["<f2", "<f8", "|O", "<U9", "|V1000000"]))
    basis = _array(shape, rng.bytes(int(rng.integers(0, 3000))), dtype)
    if rng.random() < 0.5:
        basis = mutate(rng, basis, basis)
    header = io.BytesIO()
    np.save(header, np.array(json.dumps({**ABOUT, "about": {}})))
    return _zip(zipfile.ZIP_DEFLATED, basis=basis, header=header.getvalue())
