"""The parsers of this package, as functions of bytes, with files that each accepts.

`benchmarks.attacks.fuzz_parsers` feeds them the inputs of a coverage-guided fuzzer. A new parser is
one more entry of `PARSERS`.
"""

import io
import json
import zipfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import soundfile

from alphamf.audio import formats, metadata
from alphamf.audio.file_pieces import Scan
from alphamf.audio.reader import open_reader
from alphamf.audio.stft import Frame
from alphamf.evaluation import outputs, runner
from alphamf.evaluation.mixing import corpus
from alphamf.evaluation.pairs import read_pairs
from alphamf.evaluation.summary import Result
from alphamf.inference import checkpoint
from alphamf.inference.samplers.langevin import SGLDState
from alphamf.inference.targets.gaussian import LinearGaussian
from alphamf.learnt import dictionary, network
from alphamf.learnt.refiner import Refiner
from alphamf.learnt.second_stage import SecondStage
from alphamf.tools import jobs
from alphamf.tools.files import refuse_links
from benchmarks.attacks.mutants import model, sounds


class Parser(NamedTuple):
    """A parser of the package, and inputs with which a fuzzer starts."""

    # Takes the bytes and a folder; raises AlphaMFError for what it refuses.
    parse: Callable[[bytes, Path], None]
    seeds: Callable[[], Iterable[bytes]]  # Returns inputs to begin with


def _file(data: bytes, folder: Path) -> Path:
    path = folder / "input"
    path.unlink(missing_ok=True)  # ext4 waits for the disk where a file is emptied and written anew
    path.write_bytes(data)
    return path


def _header(data: bytes, folder: Path) -> None:
    with _file(data, folder).open("rb") as file:
        layout = formats.check(Scan(file, "input"))
    ranges = [p for part in layout.parts for p in part.pieces or () if isinstance(p, range)]
    assert all(0 <= p.start <= p.stop <= len(data) for p in ranges), layout
    assert 0 <= layout.spare <= len(data), layout


def _metadata(data: bytes, folder: Path) -> None:
    """Copy the metadata of a file to an output of the same format, or of MP3 by default."""
    forms = {b"RIFF": "WAV", b"RF64": "RF64", b"FORM": "AIFF", b"fLaC": "FLAC"}
    form = forms.get(data[:4], "MP3")
    output = folder / "output"
    output.write_bytes(_outputs()[form])
    metadata.keep(_file(data, folder), form, output, form, None)
    with open_reader(output) as reader:
        assert reader.frames > 0


@cache
def _outputs() -> dict[str, bytes]:
    found = _found()
    others = {"AIFF": b"FORM", "RF64": b"RF64"}
    every = found["others"] + found["wav"]
    return {
        **{form: next(s for s in every if s.startswith(head)) for form, head in others.items()},
        **{kind.upper(): found[kind][0] for kind in ("wav", "flac", "mp3")},
    }


def _sound(data: bytes, folder: Path) -> None:
    """Decode a sound after a first byte that says how: as a file or as a pipe."""
    way, data = (data[0], data[1:]) if data else (0, data)
    source = io.BytesIO(data) if way & 2 else _file(data, folder)
    with open_reader(source, max_channels=64) as reader:
        assert sum(len(block) for block in reader.blocks()) == reader.frames > 0
        assert np.isfinite([reader.peak, reader.rms]).all()


@cache
def _found() -> dict[str, list[bytes]]:
    return sounds(None)


def _sounds() -> list[bytes]:
    return [data for kind in _found().values() for data in kind if not _is_unchecked(data)]


def _is_unchecked(data: bytes) -> bool:
    """Return whether a file has a format that is refused, as its length cannot be checked."""
    with suppress(soundfile.LibsndfileError), soundfile.SoundFile(io.BytesIO(data)) as file:
        return file.format in formats.UNCHECKED
    return False


def _packed(data: bytes, folder: Path, array: str) -> Path:
    """Write an archive of a header and an array: the bytes before and from the array's magic."""
    header, _, rest = data.partition(b"\x93NUMPY")
    packed = io.BytesIO()
    np.save(packed, np.array(header.decode("utf-8", "replace")))
    with zipfile.ZipFile(path := folder / "input", "w") as archive:
        archive.writestr("header.npy", packed.getvalue())
        archive.writestr(f"{array}.npy", b"\x93NUMPY" + rest)
    return path


def _unpacked(path: Path, array: str) -> bytes:
    """Return the bytes from which `_packed` makes an archive like this one."""
    with np.load(path) as arrays, zipfile.ZipFile(path) as archive:
        return str(arrays["header"]).encode() + archive.read(f"{array}.npy")


def _unchecked(data: bytes, folder: Path) -> Path:
    """Write an archive, and make zipfile skip checksums, which refuse any changed archive."""
    zipfile.ZipExtFile._update_crc = lambda *_: None  # type: ignore[attr-defined]
    return _file(data, folder)


def _archive(data: bytes, folder: Path) -> None:
    dictionary.load(_unchecked(data, folder))


def _dictionary(data: bytes, folder: Path) -> None:
    found = dictionary.load(_packed(data, folder, "basis"))
    assert np.isfinite(found.basis).all() and found.bins > 0 < found.rank


def _dictionaries() -> list[bytes]:
    with TemporaryDirectory() as folder:
        path = _file(model(np.ones((258, 1), np.float16)), Path(folder))
        return [path.read_bytes(), _unpacked(path, "basis")]


def _network(data: bytes, folder: Path) -> None:
    for kind in (Refiner, SecondStage):
        found = kind.load(_packed(data, folder, "parameters"))
        assert found.rate > 0 and 1 <= found.frame.hop_length <= found.frame.n_fft


def _networks() -> list[bytes]:
    frame = Frame(8, 4)
    shapes = network.shapes(frame.bins, network.Sizes(1, 1, 1, 2, 1, 1))
    parameters = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    with TemporaryDirectory() as folder:
        Refiner(parameters, 8000, frame).save(path := Path(folder, "x"))
        return [_unpacked(path, "parameters")]


def _checkpoint(data: bytes, folder: Path) -> None:
    target = LinearGaussian(np.ones((2, 2)), np.ones(2), 1)
    state = SGLDState(np.zeros(2), 0)
    checkpoint.load(_unchecked(data, folder), {}, state, target, None)


def _checkpoints() -> list[bytes]:
    stored = io.BytesIO()
    np.savez(stored, identity=np.array("{}"), **{"state.theta": np.ones(2), "state.step": 3})
    return [stored.getvalue()]


def _pairs(data: bytes, folder: Path) -> None:
    for pair in read_pairs(str(_file(data, folder))):
        assert pair.snr is None or np.isfinite(pair.snr), pair


def _corpus(data: bytes, folder: Path) -> None:
    """Check that all names in the table of a corpus of mixtures are inside its folder."""
    (folder / corpus.TABLE).write_bytes(data)
    for name in corpus.corpus_files(folder / corpus.TABLE):
        refuse_links(folder / name, folder)
        assert (folder / name).resolve().is_relative_to(folder.resolve()), name


def _results(data: bytes, folder: Path) -> None:
    """Read results of an earlier evaluation, and write its final outputs from them."""
    known = jobs.ResultsFile(
        _file(data, folder), lambda result: result.key, Result.to_json, Result.from_json
    ).last_results()
    if known:
        results = list(known.values())
        for result in results:
            runner.audio_name(result.method, "x")
        outputs.write(folder, results, {})


def _lines() -> list[bytes]:
    names = {"version": "0", "key": "k", "method": "fast", "noisy": "a", "clean": "b"}
    known = Result(**names, noise="car", snr=5.0, seed=0, rate=8000, scores={"pesq": None})
    failed = Result(**names, noise=None, snr=None, seed=0, error="it failed")
    return [json.dumps(each.to_json()).encode() + b"\n" for each in (known, failed)]


# Parsers by name
PARSERS = {
    "header": Parser(_header, _sounds),
    "metadata": Parser(_metadata, lambda: list(_outputs().values())),
    "sound": Parser(_sound, lambda: [bytes([k % 4]) + s for k, s in enumerate(_sounds())]),
    "archive": Parser(_archive, lambda: _dictionaries()[:1]),
    "dictionary": Parser(_dictionary, lambda: _dictionaries()[1:]),
    "network": Parser(_network, _networks),
    "checkpoint": Parser(_checkpoint, _checkpoints),
    "pairs": Parser(_pairs, lambda: [b"clean,noisy,noise,snr\na,b,car,5\n"]),
    "corpus": Parser(_corpus, lambda: [b"clean,noisy\nclean/a.wav,noisy/b.wav\n"]),
    "results": Parser(_results, _lines),
}
