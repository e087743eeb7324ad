"""The methods that can be evaluated: the presets, and those of `evaluation.baselines`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from alphamf.denoising.api import PRESETS, Settings, denoise
from alphamf.errors import AlphaMFError
from alphamf.evaluation.baselines import METHODS, Clip, Method
from alphamf.learnt import network_file
from alphamf.learnt.dictionary import load, shipped
from alphamf.tools.arrays import Floats

DEFAULTS = ("noisy", "oracle-mask", "logmmse", "is-nmf", "fast", "balanced")
"""Methods of an evaluation unless others are asked for."""


class Entry(NamedTuple):
    """A method as the user asked for it.

    Attributes
    ----------
    spec
        ``NAME`` or ``NAME@MODEL``.
    method
        What runs.
    model
        Its dictionary: a name, a file, or ``auto``.
    identity
        Hash of what its results depend on beside the clip: settings, dictionary and refiners.
    """

    spec: str
    method: Method
    model: str
    identity: str


def known() -> dict[str, Method]:
    """Return every method by name."""
    presets = {
        name: Method(
            name, f"alphamf, preset {name}", partial(_denoise, settings=settings), uses_model=True
        )
        for name, settings in PRESETS.items()
    }
    return {**METHODS, **presets}


def resolve(specs: Iterable[str], model: str = "auto") -> list[Entry]:
    """Return the methods that the user asked for, each once.

    Parameters
    ----------
    specs
        Names, or names with a dictionary, ``NAME@MODEL``, or several of these with commas between;
        ``all`` for every method that can run here.
    model
        Dictionary of those that name none.

    Raises
    ------
    AlphaMFError
        There is no such method or dictionary, or it cannot run here.
    """
    methods = known()
    entries: dict[str, Entry] = {}
    for spec in (part.strip() for text in specs for part in text.split(",")):
        if spec == "all":
            chosen = [name for name, method in methods.items() if method.available() is None]
        else:
            chosen = [spec]
        for each in chosen:
            entries.setdefault(each, _entry(each, model, methods))
    return list(entries.values())


def method(spec: str) -> Method:
    """Return what runs for a spec that `resolve` has seen."""
    return known()[spec.partition("@")[0]]


def describe(entry: Entry) -> dict[str, Any]:
    """Return what there is to say of a method, as JSON values."""
    settings = PRESETS.get(entry.method.name)
    about: dict[str, Any] = {"summary": entry.method.summary, "model": entry.model}
    if settings is not None:
        about["settings"] = asdict(settings)
    if entry.method.uses_model:
        files = _files(entry.model) + _refiners(settings)
        about["sha256"] = {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files
        }
    return about


def _entry(spec: str, model: str, methods: dict[str, Method]) -> Entry:
    name, _, own = spec.partition("@")
    if name not in methods:
        raise AlphaMFError(f"there is no method {name!r}: it must be one of {', '.join(methods)}")
    if spec.endswith("@"):
        raise AlphaMFError(f"--method {spec} names no dictionary after the @")
    if own and not methods[name].uses_model:
        raise AlphaMFError(f"--method {spec} names a dictionary, and {name} uses none")
    problem = methods[name].available()
    if problem is not None:
        raise AlphaMFError(f"--method {spec} cannot run: {problem}")
    model = own or model
    settings = PRESETS.get(name)
    digest = hashlib.sha256(repr(settings).encode())
    for path in _files(model) + _refiners(settings):
        digest.update(path.read_bytes())
    return Entry(spec, methods[name], model, digest.hexdigest())


def _files(model: str) -> list[Path]:
    if model == "auto":
        return list(shipped().values())
    load(model)
    return [shipped().get(model, Path(model))]


def _refiners(settings: Settings | None) -> list[Path]:
    return list(network_file.shipped().values()) if settings and settings.refine else []


def _denoise(clip: Clip, settings: Settings) -> Floats:
    return denoise(clip.noisy, clip.rate, settings, model=clip.model, seed=clip.seed).audio
