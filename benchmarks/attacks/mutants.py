"""Sound files, a byte mutator that damages them, and damaged and odd models."""

import io
import json
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from alphamf.audio import formats, ogg
from alphamf.audio.writer import open_writer
from alphamf.errors import AlphaMFError

SECONDS = 0.2  # Length of the sounds: thousands of them are denoised

# Kinds of sound files, with the names of their formats and subtypes
FORMATS = {
    "wav": [("WAV", s) for s in ("PCM_16", "PCM_24", "PCM_U8", "FLOAT", "DOUBLE", "ULAW")]
    + [("WAV", "IMA_ADPCM"), ("WAV", "GSM610"), ("WAVEX", "PCM_16"), ("RF64", "PCM_16")],
    "flac": [("FLAC", "PCM_16"), ("FLAC", "PCM_24")],
    "ogg": [("OGG", "VORBIS"), ("OGG", "OPUS")],
    "mp3": [("MP3", "MPEG_LAYER_III")],
    "others": [("CAF", "ALAC_16")]
    + [(form, "PCM_16") for form in ("AIFF", "AU", "CAF", "W64", "NIST", "SVX", "IRCAM")],
    "media": [
        (form.name, s) for form in formats.FORMATS.values() if form.muxer for s in form.subtypes
    ],
}

# Sizes that break programs which trust them
NUMBERS = (0, 1, 2, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 2**24, 2**31 - 1, 2**31, 2**32 - 1)


def sounds(folder: Path | None) -> dict[str, list[bytes]]:
    """Return small sound files by kind: noise in one and two channels, and files of a folder.

    Of files larger than 20 kB, only the beginning is used, encoded again.
    """
    rng = np.random.default_rng(0)
    found: dict[str, list[bytes]] = {kind: [] for kind in FORMATS}
    for kind, encodings in FORMATS.items():
        for form, subtype in encodings:
            for channels in (1, 2):
                rate = 48000 if kind == "media" or subtype == "OPUS" else 8000
                rate = 8000 if subtype == "AMR_NB" else rate
                audio = 0.2 * rng.standard_normal((int(SECONDS * rate), channels))
                data = _encoded(audio.astype(np.float32), rate, form, subtype)
                found[kind] += [data] if data else []
    for path in sorted(folder.glob("*.*")) if folder else []:
        kind = path.suffix[1:]
        if kind in found:
            found[kind].append(_short(path))
    return found


def _encoded(audio: Any, rate: int, form: str, subtype: str) -> bytes | None:
    """Return a sound file; None if its format is mono only, or needs PyAV, which is absent."""
    import soundfile

    data = io.BytesIO()
    try:
        if form in formats.FORMATS and formats.FORMATS[form].muxer:
            with TemporaryDirectory() as folder:
                path = Path(folder, "x")
                with open_writer(path, rate, audio.shape[1], format=form, subtype=subtype) as file:
                    file.write(audio)
                return path.read_bytes()
        soundfile.write(data, audio, rate, subtype, format=form)
    except (AlphaMFError, soundfile.LibsndfileError):
        return None
    return data.getvalue()


def _short(path: Path) -> bytes:
    """Return a small file; of a large one, its beginning in the same format."""
    import soundfile

    data = path.read_bytes()
    if len(data) > 20_000:
        with soundfile.SoundFile(path) as file:
            audio = file.read(int(SECONDS * file.samplerate), always_2d=True)
            form, subtype, rate = file.format, file.subtype, file.samplerate
        out = io.BytesIO()
        soundfile.write(out, audio, rate, subtype, format=form)
        data = out.getvalue()
    return data


def mutate(rng: np.random.Generator, data: bytes, other: bytes) -> bytes:
    """Return `data` after one to four random changes."""
    changed = bytearray(data)
    for _ in range(rng.integers(1, 5)):
        CHANGES[rng.integers(len(CHANGES))](rng, changed, other)
    if data[:4] == b"OggS" and rng.random() < 0.5:
        _mend(changed)
    return bytes(changed)


def _mend(data: bytearray) -> None:
    """Correct the checksums of Ogg pages, so that changes reach the decoder."""
    starts = [found.start() for found in re.finditer(b"OggS", data)]
    for start, end in pairwise([*starts, len(data)]):
        if end - start >= 27:
            data[start + 22 : start + 26] = bytes(4)
            check = ogg.checksum(bytes(data[start:end]))
            data[start + 22 : start + 26] = check.to_bytes(4, "little")


def _place(rng: np.random.Generator, data: bytearray) -> int:
    """Return a random index, in half of the cases below 100: headers do most harm."""
    end = min(100, len(data)) if rng.random() < 0.5 else len(data)
    return int(rng.integers(max(1, end)))


def _flip(rng: np.random.Generator, data: bytearray, other: bytes) -> None:
    for _ in range(rng.integers(1, 9) if data else 0):
        data[_place(rng, data)] ^= 1 << int(rng.integers(8))


def _cut(rng: np.random.Generator, data: bytearray, other: bytes) -> None:
    del data[_place(rng, data) :]


def _swap(rng: np.random.Generator, data: bytearray, other: bytes) -> None:
    a, b = _place(rng, data), _place(rng, data)
    n = int(rng.integers(1, 65))
    first, second = data[a : a + n], data[b : b + n]
    data[a : a + n] = second
    data[b : b + n] = first


def _resize(rng: np.random.Generator, data: bytearray, other: bytes) -> None:
    """Overwrite two, four or eight bytes with a number."""
    width = int(rng.choice([2, 4, 4, 8]))
    at = _place(rng, data) // 2 * 2
    number = int(rng.choice([*NUMBERS, len(data) - 8, len(data) + 1, int(rng.integers(2**32))]))
    order = "little" if rng.random() < 0.7 else "big"
    data[at : at + width] = (number % 256**width).to_bytes(width, order)


def _splice(rng: np.random.Generator, data: bytearray, other: bytes) -> None:
    at, start = _place(rng, data), int(rng.integers(max(1, len(other))))
    piece = other[start : start + int(rng.integers(1, 513))]
    data[at : at + int(rng.integers(0, 513))] = piece


Change = Callable[[np.random.Generator, bytearray, bytes], None]
# Changes of the byte mutator: bits, cuts, swaps, sizes, pieces of another file
CHANGES: tuple[Change, ...] = (_flip, _cut, _swap, _resize, _resize, _splice)


ABOUT = {"format": 1, "alpha": 1.0, "rate": 8000, "n_fft": 256, "hop_length": 64, "context": 2}


def model(basis: Any = None, text: str | None = None, **header: Any) -> bytes:
    """Return a model file with `basis` as W, and `text` as header, or changed entries."""
    if basis is None:
        basis = np.random.default_rng(0).random((2 * 129, 3)).astype(np.float16)
    text = json.dumps({**ABOUT, "about": {}, **header}) if text is None else text
    data = io.BytesIO()
    np.savez_compressed(data, basis=basis, header=np.array(text))
    return data.getvalue()


def models(rng: np.random.Generator) -> Iterator[tuple[str, bytes]]:
    """Yield kinds of damaged or odd models, without end; tests/learnt has hostile ones."""
    values = (0, -1, 1, 2, 3, 0.5, 1e30, 1e308, 2**31, 2**63, 10**400, None, "8000", [], {}, True)
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
