"""Checkpoints of a run: one ``.npz`` without pickled objects, replaced atomically."""

import json
import re
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.inference.protocols import Record, Target
from alphamf.tools.arrays import Array, namespace, to_host
from alphamf.tools.files import atomic_file

S = TypeVar("S")


def fingerprint(part: object) -> str:
    """Return `part`'s repr as its identity; raise an AlphaMFError if it has a memory address."""
    text = repr(part)
    if re.search(r" at 0x[0-9a-f]+", text):
        raise AlphaMFError(
            f"a checkpoint needs a sampler and a record whose repr is the same in every process, "
            f"not {text} (a step size can be schedule.Polynomial, or a class with a repr)"
        )
    return text


def save(
    path: Path, identity: dict[str, Any], state: Any, target: Target[Any], record: Record | None
) -> None:
    """Save the state, the latents, the record, and `identity`, which `load` compares."""
    arrays = {f"state.{name}": value for name, value in _flat(state).items()}
    arrays |= {f"latent.{name}": latent for name, latent in target.latents.items()}
    if record is not None:
        arrays |= {f"record.{name}": array for name, array in record.arrays().items()}
    arrays = {name: _host(array) for name, array in arrays.items()}
    with atomic_file(path) as part, part.open("wb") as file:
        np.savez(file, identity=np.asarray(json.dumps(identity)), **arrays)


def load(
    path: Path, identity: dict[str, Any], template: S, target: Target[Any], record: Record | None
) -> S:
    """Return the state at `path`, and restore the latents and the record.

    `template` is a state of the same sampler on the same target. Raises an AlphaMFError if the file
    cannot be read, or if its identity, or a name, shape or dtype of state or latents, differs.
    """
    arrays, saved = _read(path)
    check_identity(str(path), saved, identity)
    groups: dict[str, dict[str, Array]] = {"state": {}, "latent": {}, "record": {}}
    for name, array in arrays.items():
        group, _, field = name.partition(".")
        groups.setdefault(group, {})[field] = array
    expected: Any = template
    xp = namespace(expected.theta)
    fields = _flat(expected)
    _compare(path, "state", groups["state"], fields)
    _compare(path, "latent", groups["latent"], target.latents)
    for name, latent in target.latents.items():
        latent[...] = xp.asarray(groups["latent"][name])
    if record is not None:
        record.load({name: xp.asarray(array) for name, array in groups["record"].items()})
    values = {
        name: array.item() if isinstance(fields[name], int | float) else xp.asarray(array)
        for name, array in groups["state"].items()
    }
    return _nested(expected, values)


def check_identity(path: str, saved: dict[str, Any], identity: dict[str, Any]) -> None:
    """Raise an AlphaMFError if a value of `identity` is not the saved one: it is another run."""
    for name, value in identity.items():
        if saved.get(name) != value:
            raise AlphaMFError(
                f"checkpoint {path} belongs to another run: its {name} is "
                f"{saved.get(name)}, not {value}"
            )


def _flat(state: Any, prefix: str = "") -> dict[str, Any]:
    """Return the arrays and numbers of a state by dotted names, because states can be nested."""
    flat: dict[str, Any] = {}
    for name in state._fields:
        value = getattr(state, name)
        inner = hasattr(value, "_fields")
        flat |= _flat(value, f"{prefix}{name}.") if inner else {f"{prefix}{name}": value}
    return flat


def _nested(template: Any, values: dict[str, Any], prefix: str = "") -> Any:
    """Return a state that is nested like `template`, from values with the names of `_flat`."""
    fields = {
        name: _nested(value, values, f"{prefix}{name}.")
        if hasattr(value := getattr(template, name), "_fields")
        else values[f"{prefix}{name}"]
        for name in template._fields
    }
    return template._replace(**fields)


def _host(value: Any) -> Array:
    # For a single chain, NumPy can return one of its scalars instead of an array.
    return np.asarray(value) if isinstance(value, int | float | np.generic) else to_host(value)


def _read(path: Path) -> tuple[dict[str, Array], dict[str, Any]]:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        return arrays, dict(json.loads(str(arrays.pop("identity"))))
    except Exception as error:  # zipfile, zlib, numpy and json each have their own
        raise AlphaMFError(f"checkpoint {path} cannot be read ({type(error).__name__})") from error


def _compare(path: Path, what: str, saved: dict[str, Array], wanted: dict[str, Any]) -> None:
    """Raise an AlphaMFError if names, shapes or dtypes of `saved` and `wanted` differ."""

    def layout(arrays: dict[str, Any]) -> dict[str, str]:
        hosts = {
            name: value if hasattr(value, "shape") else np.asarray(value)
            for name, value in arrays.items()
        }
        return {name: f"{host.dtype}{host.shape}" for name, host in hosts.items()}

    if layout(saved) != layout(wanted):
        raise AlphaMFError(
            f"checkpoint {path} belongs to another target: its {what} is "
            f"{layout(saved)}, not {layout(wanted)}"
        )
