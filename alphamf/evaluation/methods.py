"""The methods that can be evaluated: presets, low latency, baselines, files of other systems."""

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np

from alphamf.audio.formats import SUFFIXES
from alphamf.denoising.api import denoise
from alphamf.denoising.settings import PRESETS, Settings
from alphamf.denoising.stream import Stream
from alphamf.errors import AlphaMFError
from alphamf.evaluation.baselines.base import Clip, Method
from alphamf.evaluation.baselines.registry import METHODS
from alphamf.learnt import network_file
from alphamf.learnt.causal import CausalRefiner
from alphamf.learnt.dictionary import load, shipped_dictionaries
from alphamf.tools.arrays import Floats
from alphamf.tools.files import printable_name, real_path

ENDINGS = (".denoised", "_denoised", "-denoised", "_enhanced", "-enhanced", ".enhanced")
"""Suffixes that systems add to the names of their outputs."""


class Folder:
    """Folder with the denoised files of another system; raises AlphaMFError without audio files.

    The denoised file has the noisy file's stem, or this stem and one of `ENDINGS`; its type may
    differ. It lies in the same subfolders, in the last of them or in none, or, if unique, anywhere.
    """

    def __init__(self, path: str) -> None:
        if not os.path.isdir(path):
            raise AlphaMFError(f"{printable_name(path)} is not a folder")
        self.path = path
        self._places: dict[str, list[str]] = {}
        self._names: dict[str, list[str]] = {}
        root = real_path(path)
        for file in _audio(root):
            place = PurePosixPath(os.path.relpath(file, root).replace(os.sep, "/"))
            stem = _stem(place)
            self._places.setdefault(str(place.with_name(stem)), []).append(file)
            self._names.setdefault(stem, []).append(file)
        if not self._names:
            raise AlphaMFError(f"{printable_name(path)} contains no audio files")

    def file(self, noisy: str) -> tuple[str, str | None]:
        """Return the file for a noisy file, and None; if none or several fit, "" and the reason."""
        stem = PurePosixPath(noisy).stem
        *folders, _ = PurePosixPath(noisy).parts
        tails = ("/".join([*folders[k:], stem]) for k in range(len(folders) + 1))
        places = (self._places.get(tail, []) for tail in tails)
        found = next(filter(None, places), self._names.get(stem, []))
        if len(found) == 1:
            return found[0], None
        which = "more than one file" if found else "no file"
        return "", f"{printable_name(self.path)} holds {which} for {printable_name(noisy)}"


def _audio(root: str) -> Iterator[str]:
    """Yield the paths of the audio files in a folder and its subfolders, except hidden files."""
    for folder, below, names in os.walk(root):
        below.sort()
        for name in sorted(names):
            if os.path.splitext(name)[1].lower() in SUFFIXES and not name.startswith("."):
                yield os.path.join(folder, name)


def _stem(place: PurePosixPath) -> str:
    ending = next((end for end in ENDINGS if place.stem.endswith(end)), "")
    return place.stem.removesuffix(ending)


LOW = "low"
"""Name of the method with 40 ms of latency (`alphamf.Stream`)."""

DEFAULTS = ("noisy", "oracle-mask", "logmmse", "is-nmf", "fast")
"""Methods of an evaluation unless others are asked for."""

CODE = ("audio", "denoising", "factorization", "inference", "learnt", "native", "tools")
"""Folders of the package whose code is part of `Entry.identity`, for methods with a dictionary."""

HOME = Path(__file__).parents[1]
"""Folder of the installed package `alphamf`."""


class Entry(NamedTuple):
    """A method requested by the user."""

    spec: str  # ``NAME`` or ``NAME@MODEL``; of a folder, the name that it is shown under
    method: Method  # The method with this name
    model: str  # Its dictionary: a name, a file, or ``auto``
    identity: str  # Hash that shows if stored results are still valid; ``files`` for a folder
    # Files of another system, which are scored as they are; None: the method is run.
    folder: Folder | None = None


def all_methods() -> dict[str, Method]:
    """Return all methods by name, including those that cannot run here."""
    presets = {
        name: Method(
            name, f"alphamf, preset {name}", partial(_denoise, settings=settings), uses_model=True
        )
        for name, settings in PRESETS.items()
    }
    low = Method(LOW, "alphamf, low latency", _at_low_latency, uses_model=True)
    return {**METHODS, **presets, LOW: low}


def resolve(specs: Iterable[str], model: str = "auto") -> list[Entry]:
    """Return requested methods, each once, or raise AlphaMFError; without @ they use `model`."""
    methods = all_methods()
    entries: dict[str, Entry] = {}
    for spec in (part.strip() for text in specs for part in _parts(text, methods)):
        if "=" in spec:
            entry = _folder(spec, methods)
            entries[entry.spec] = entry
            continue
        if spec == "all":
            chosen = [name for name, method in methods.items() if method.available() is None]
        else:
            chosen = [spec]
        for each in chosen:
            entries.setdefault(each, _entry(each, model, methods))
    return list(entries.values())


def _parts(text: str, methods: Mapping[str, Method]) -> list[str]:
    """Split a list of methods at its commas, except for those in the name of a folder."""
    parts: list[str] = []
    for part in text.split(","):
        name = part.strip().partition("@")[0]
        if parts and "=" in parts[-1] and "=" not in part and name not in (*methods, "all"):
            parts[-1] += f",{part}"
        else:
            parts.append(part)
    return parts


def _folder(spec: str, methods: Mapping[str, Method]) -> Entry:
    """Return the entry for ``NAME=FOLDER``; raise an AlphaMFError if one of the two is unusable."""
    name, _, path = spec.partition("=")
    if not name or "@" in name or name in methods or name in ("all", "clean"):
        raise AlphaMFError(
            f"`method` {spec} needs a new name before the =, not the name of a method, all or clean"
        )
    shown_as = Method(name, f"files of {path}", _not_run)
    return Entry(name, shown_as, "auto", "files", Folder(path))


def _not_run(clip: Clip) -> Floats:
    raise AlphaMFError("the files of another system can only be scored, not computed")


def restore_entries(described: Mapping[str, Any]) -> list[Entry]:
    """Return the methods of an earlier evaluation that still exist, with their current settings."""
    methods = all_methods()
    entries = []
    for spec, about in described.items():
        try:
            if about.get("folder"):
                entries.append(_folder(f"{spec}={about['folder']}", methods))
            else:
                entries.append(_entry(spec, str(about["model"]), methods, installed=False))
        except (AlphaMFError, AttributeError, KeyError):
            continue
    return entries


def method(spec: str) -> Method:
    """Return the method called NAME, for the spec ``NAME`` or ``NAME@MODEL``."""
    return all_methods()[spec.partition("@")[0]]


def describe(entry: Entry) -> dict[str, Any]:
    """Return summary, dictionary and, if any, folder, settings and hashes, as JSON values."""
    settings = PRESETS.get(entry.method.name)
    about: dict[str, Any] = {"summary": entry.method.summary, "model": entry.model}
    if entry.folder is not None:
        about["folder"] = entry.folder.path
    if settings is not None:
        about["settings"] = asdict(settings)
    if entry.method.uses_model:
        files = _files(entry.model) + _networks(entry.method.name)
        about["sha256"] = {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files
        }
    return about


def _entry(
    spec: str, model: str, methods: Mapping[str, Method], *, installed: bool = True
) -> Entry:
    name, _, own = spec.partition("@")
    if name not in methods:
        raise AlphaMFError(f"unknown method {name!r}; it must be one of {', '.join(methods)}")
    if spec.endswith("@"):
        raise AlphaMFError(f"`method` {spec} has no dictionary after the @")
    if own and not methods[name].uses_model:
        raise AlphaMFError(f"`method` {spec} names a dictionary, but {name} does not use one")
    problem = methods[name].available()
    if installed and problem is not None:
        raise AlphaMFError(f"`method` {spec} cannot run: {problem}")
    model = own or model
    settings = PRESETS.get(name)
    digest = hashlib.sha256(repr(settings).encode())
    for path in _files(model) + _networks(name):
        digest.update(path.read_bytes())
    if methods[name].uses_model:
        digest.update(_hash_code(HOME))
    return Entry(spec, methods[name], model, digest.hexdigest())


@cache
def _hash_code(home: Path) -> bytes:
    """Return a hash of the code in `CODE`, which may change while the version stays the same."""
    digest = hashlib.sha256()
    for path in sorted(path for name in CODE for path in (home / name).rglob("*")):
        if path.suffix in (".py", ".so", ".pyd"):
            digest.update(path.read_bytes())
    return digest.digest()


def _files(model: str) -> list[Path]:
    if model == "auto":
        return list(shipped_dictionaries().values())
    load(model)
    return [shipped_dictionaries().get(model, Path(model))]


def _networks(name: str) -> list[Path]:
    """Return the files of the shipped networks that a method may use."""
    settings, paths = PRESETS.get(name), network_file.shipped_networks().values()
    if name != LOW and not (settings and settings.refine):
        return []
    return [path for path in paths if path.stem.startswith(CausalRefiner.kind) == (name == LOW)]


def _denoise(clip: Clip, settings: Settings) -> Floats:
    return denoise(clip.noisy, clip.rate, settings, model=clip.model, seed=clip.seed).audio


def _at_low_latency(clip: Clip) -> Floats:
    stream = Stream(clip.rate, 1, model=clip.model, latency="low", seed=clip.seed)
    return np.concatenate([stream.process(clip.noisy), stream.flush()])
