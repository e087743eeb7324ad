"""Table ``pairs.csv`` of a corpus of noisy speech, and the folder of the corpus."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from alphamf.errors import AlphaMFError
from alphamf.tools import files as file_tools
from alphamf.tools.files import atomic_file, file_errors, make_folder, printable_name, refuse_links

TABLE, PARTS = "pairs.csv", ("clean", "noisy")
"""Files and folders of a corpus."""


class Mixture(NamedTuple):
    """A line of ``pairs.csv``: a mixture and its sources."""

    # clean, noisy: the two files, relative to the corpus.
    clean: str
    noisy: str
    # noise, snr: kind of noise, and signal-to-noise ratio in dB.
    noise: str
    snr: float
    # noise_file, offset: the noise, and the sample of it, at the mixture's rate, that the mixture
    # begins with.
    noise_file: str
    offset: int
    # Factor of the clean file and all its mixtures: a power of two, below one where one of them
    # would exceed full scale.
    gain: float
    level: str  # One of `alphamf.evaluation.mixing.mixture.LEVELS`


def claim(
    folder: Path, inputs: Iterable[str], planned: Iterable[tuple[str, str]], *, overwrite: bool
) -> None:
    """Create the folder of a corpus, and remove an earlier corpus from it."""
    for name in (TABLE, *PARTS):
        refuse_links(folder / name, folder)
    written = list(corpus_files(folder / TABLE)) if overwrite else []
    ours = {
        file_tools.identify(folder / name) for name in (*written, *chain.from_iterable(planned))
    }
    for path in inputs:
        if file_tools.identify(path) in ours or any(
            file_tools.lies_in(path, folder / part) for part in PARTS
        ):
            raise AlphaMFError(
                f"{printable_name(path)} is in the folder of the corpus "
                f"{printable_name(folder)}; choose another "
                "folder"
            )
    make_folder(folder / TABLE)
    with file_errors(folder, "written"):
        if not overwrite:
            if any((folder / name).exists() for name in (TABLE, *PARTS)):
                raise AlphaMFError(
                    f"{printable_name(folder)} already contains a corpus; use `overwrite` "
                    "to replace it"
                )
            return
        for name in written:  # before anything is removed
            refuse_links((folder / name).parent, folder)
        for name in written:
            (folder / name).unlink(missing_ok=True)
            with suppress(OSError):
                (folder / name).parent.rmdir()
        (folder / TABLE).unlink(missing_ok=True)


@contextmanager
def write_table(
    folder: Path, planned: Iterable[tuple[str, str]], mixtures: Sequence[Mixture]
) -> Iterator[None]:
    """Write ``pairs.csv`` with the `mixtures` so far when the block ends, even after an error.

    Until then it lists the files that are `planned`, so that `claim` finds the files of a killed
    run.
    """
    _write(folder, planned)
    try:
        yield
    finally:
        _write(folder, mixtures)


def _write(folder: Path, rows: Iterable[Sequence[object]]) -> None:
    with (
        atomic_file(folder / TABLE, within=folder) as part,
        part.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(Mixture._fields)
        writer.writerows(rows)


def corpus_files(table: Path) -> Iterator[str]:
    """Yield the files of a table whose names `make` could have written."""
    if not table.exists():
        return
    with table.open(newline="", encoding="utf-8", errors="surrogateescape") as file:
        try:
            lines = list(csv.DictReader(file))
        except csv.Error as error:
            raise AlphaMFError(f"{printable_name(table)} cannot be read: {error}") from error
        for line in lines:
            for column in ("clean", "noisy"):
                text = line.get(column) or ""
                name = PurePosixPath(text)
                if name.parts[:1] == (column,) and ".." not in name.parts and "\0" not in text:
                    yield str(name)
