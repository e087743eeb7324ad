"""Files of an unfinished selection, from which the same call can resume."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.learnt.dictionary import Dictionary
from alphamf.tools.arrays import Floats
from alphamf.tools.files import (
    atomic_file,
    exclusive_lock,
    file_errors,
    printable_name,
    reason,
    refuse_links,
)
from alphamf.training.dictionary.settings import TrainingSettings
from alphamf.training.dictionary.voices import Voice

_OURS = re.compile(r"[0-9a-f]{16}(\.done)?\.npz(\.part)?|\.alphamf-[0-9a-f]{16}\.part")


def clear(folder: str | os.PathLike[str]) -> None:
    """Remove the files of an unfinished selection, and the folder if it is then empty."""
    with suppress(OSError):
        for path in Path(folder).iterdir():
            if _OURS.fullmatch(path.name):
                path.unlink()
        Path(folder).rmdir()


@contextmanager
def lock_folder(folder: str | os.PathLike[str] | None) -> Iterator[Path | None]:
    """Create and lock a folder, and remove it at the end if it is empty; does nothing for None."""
    if folder is None:
        yield None
        return
    place = Path(folder)
    try:
        place.mkdir(exist_ok=True)
    except OSError as error:
        raise AlphaMFError(f"cannot create {printable_name(folder)}: {reason(error)}") from error
    with exclusive_lock(place, f"another run is using {printable_name(folder)}", folder=True):
        _check_files(place)
        try:
            yield place
        finally:
            with suppress(OSError):
                place.rmdir()


def _check_files(place: Path) -> None:
    """Refuse a folder in which a file has been replaced by a link."""
    with file_errors(place, "read"):
        files = list(place.iterdir())
    for file in files:
        refuse_links(file, place)


def key(settings: TrainingSettings, voices: Sequence[Voice], held_out: Sequence[Voice]) -> str:
    """Return a hash of the settings and of the files' names, sizes and modification times."""
    digest = hashlib.sha256()
    digest.update(json.dumps([version("alphamf"), asdict(settings)]).encode())
    for part in (voices, held_out):
        for voice in part:
            for file in voice.files:
                try:
                    status = os.stat(file)
                    state = [status.st_size, status.st_mtime_ns]
                except OSError:
                    state = []
                digest.update(json.dumps([voice.name, file, state]).encode())
        digest.update(b"/")
    return digest.hexdigest()[:16]


def save(path: Path, model: Dictionary, scores: Floats) -> None:
    """Write a finished candidate."""
    with atomic_file(path, within=path.parent) as part, part.open("wb") as file:
        about = np.array(json.dumps(model.about))
        np.savez(file, basis=model.basis, scores=scores, about=about)


def load(path: Path, settings: TrainingSettings) -> tuple[Dictionary, Floats] | None:
    """Load a finished candidate trained with `settings`; None if there is no readable one."""
    try:
        with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
            basis, scores, about = file["basis"], file["scores"], json.loads(str(file["about"]))
        model = Dictionary(
            basis, settings.alpha, settings.rate, settings.frame, settings.context, about
        )
    except Exception:  # zipfile, zlib, numpy and json each have their own
        return None
    return model, scores
