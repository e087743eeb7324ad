"""Checkpoints over ranks: a file for each row block, and an index of the latest complete step."""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.inference.checkpoint import check_identity, fingerprint
from alphamf.tools.files import atomic_file, file_errors, make_folder, printable_name, refuse_links

INDEX = "checkpoint.json"


def save(folder: Path, walk: Any) -> None:
    """Save this rank's blocks to the step's folder; then rank 0 marks the folder as the latest.

    Only then does rank 0 remove the blocks of earlier steps. So from the first checkpoint on, a
    complete one exists whenever the run is stopped.
    """
    with file_errors(folder, "written"):
        latest = folder / str(walk.steps)
        refuse_links(latest, folder)
        make_folder(latest / "0.npz")
        for b in walk.own:
            with atomic_file(latest / f"{b}.npz", within=folder) as part, part.open("wb") as file:
                np.savez(file, **_arrays(walk, b))
        walk.ranks.barrier()
        if walk.ranks.rank == 0:
            index = {
                "identity": _identity(walk),
                "steps": walk.steps,
                "seconds": walk.seconds,
                "curve": walk.curve,
                "parts": [chain.part for chain in walk.chains],
                "visits": walk.predictions.visits.tolist(),
            }
            with (
                atomic_file(folder / INDEX, within=folder) as part,
                part.open("w", encoding="utf-8") as file,
            ):
                json.dump(index, file)
            _remove_older(folder, walk)


def _remove_older(folder: Path, walk: Any) -> None:
    """Remove the blocks of earlier steps only; the folder may contain other files.

    Later steps are kept, because a faster rank may have started them.
    """
    for older in folder.iterdir():
        old = older.name.isdecimal() and int(older.name) < walk.steps
        if old and older.is_dir() and not older.is_symlink():
            for b in range(walk.blocks):
                (older / f"{b}.npz").unlink(missing_ok=True)
            if not any(older.iterdir()):
                older.rmdir()


def load(folder: Path, walk: Any) -> None:
    """Load the latest checkpoint, if any, into `walk`; raise if it is broken or of another run."""
    index_file = folder / INDEX
    if not index_file.exists():
        return
    try:
        index = json.loads(index_file.read_text(encoding="utf-8"))
        check_identity(printable_name(folder), index["identity"], _identity(walk))
        for chain, part in zip(walk.chains, index["parts"], strict=True):
            chain.part = part
            chain.columns = {}
        for b in walk.own:
            with np.load(folder / str(index["steps"]) / f"{b}.npz", allow_pickle=False) as file:
                _put_back(walk, b, dict(file))
        walk.steps, walk.seconds, walk.curve = index["steps"], index["seconds"], index["curve"]
        walk.predictions.visits[:] = index["visits"]
    except AlphaMFError:
        raise
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise AlphaMFError(
            f"checkpoint {printable_name(folder)} cannot be read ({type(error).__name__})"
        ) from error


def _identity(walk: Any) -> dict[str, Any]:
    return {
        "sampler": fingerprint(walk.sampler),
        "model": fingerprint(walk.model),
        "seed": walk.seed,
        "burn-in": walk.predictions.burn_in,
        "number of ratings by block": walk.sizes.tolist(),
    }


def _arrays(walk: Any, b: int) -> dict[str, Any]:
    """Return a row block's arrays by name: its rows, its column block, its sums of predictions."""
    arrays = {}
    for chain in walk.chains:
        arrays[f"rows.{chain.number}"] = chain.rows[b]
        arrays[f"columns.{chain.number}"] = chain.columns[(b + chain.part) % walk.blocks]
    for (c, row, j), total in walk.predictions.sums.items():
        if row == b:
            arrays[f"sums.{c}.{j}"] = total
    return arrays


def _put_back(walk: Any, b: int, arrays: dict[str, Any]) -> None:
    for chain in walk.chains:
        chain.rows[b][:] = arrays[f"rows.{chain.number}"]
        chain.columns[(b + chain.part) % walk.blocks] = arrays[f"columns.{chain.number}"]
    for (c, row, j), total in walk.predictions.sums.items():
        if row == b:
            total[:] = arrays[f"sums.{c}.{j}"]
