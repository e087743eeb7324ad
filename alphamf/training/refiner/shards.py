"""Training clips on disk, a hundred in a file, so that a stopped run can be resumed.

Training reads clips from these files one by one, so that they need not fit into memory.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np

from alphamf.denoising.weights import Weights, find
from alphamf.errors import AlphaMFError
from alphamf.learnt import network_file
from alphamf.learnt.bands import FULL_BAND
from alphamf.learnt.dictionary import load as load_dictionary
from alphamf.learnt.refiner import Refiner
from alphamf.learnt.second_stage import SecondStage
from alphamf.tools import pool
from alphamf.tools.files import (
    atomic_file,
    exclusive_lock,
    make_folder,
    printable_name,
    reason,
)
from alphamf.training.refiner import recordings
from alphamf.training.refiner.clips import Maker, TrainingClip
from alphamf.training.refiner.config import (
    CausalHighBandKind,
    CausalSecondStageKind,
    Config,
    HighBandKind,
    Network,
)

KINDS: dict[Any, type[TrainingClip]] = {kind._fields: kind for kind in get_args(TrainingClip)}
"""Types of clips by the names of their arrays, which are also the field names in a file."""

SIZE = 100
"""Number of clips per file; the last file of a split may have fewer."""

POLL = 0.05
"""Time between two checks for a file that another thread or run makes, in seconds."""


class Shard(NamedTuple):
    """A file of clips."""

    config: Config  # Configuration of the run
    folder: Path  # Folder of the mixtures; decoded recordings lie in ``recordings/`` there
    split: str  # One of `recordings.SPLITS`: that of the recordings in the clips
    # first, clips: index of the first clip, and number of clips.
    first: int
    clips: int

    @property
    def path(self) -> Path:
        """Path of the file, an ``.npy`` of one structured array."""
        return self.folder / f"{self.split}-{self.first // SIZE:04d}.npy"


def plan(config: Config, folder: Path, split: str, clips: int) -> list[Shard]:
    """List the files for the first `clips` clips of a split, whether or not they exist."""
    return [
        Shard(config, folder, split, first, min(SIZE, clips - first))
        for first in range(0, clips, SIZE)
    ]


class Making(threading.Thread):
    """A thread that makes the missing files of clips; finished ones can be read meanwhile."""

    def __init__(self, shards: Sequence[Shard], jobs: int, tell: Callable[[str], None]) -> None:
        super().__init__(daemon=True)
        self._shards, self._jobs, self._tell = shards, jobs, tell
        self._error: AlphaMFError | None = None

    def run(self) -> None:
        """Make the files; if that fails, `check` and `wait` raise the error."""
        folder = self._shards[0].folder
        busy = f"another run is making mixtures in {printable_name(folder)}"
        make_folder(folder / "file", folder)
        while True:
            try:
                with exclusive_lock(folder, busy, folder=True):
                    for made in make_all(self._shards, self._jobs):
                        self._tell(f"{printable_name(made.path)}: {made.clips} mixtures")
            except AlphaMFError as error:
                if str(error) == busy:  # and it may be making the same ones
                    time.sleep(POLL)
                    continue
                self._error = error
            return

    def check(self) -> None:
        """Raise the AlphaMFError that stopped `run`, if one did."""
        if self._error:
            raise self._error

    def wait(self, shard: Shard) -> None:
        """Wait until a file is made, or raise the AlphaMFError that stopped `run` before that."""
        while self.is_alive() and not _complete(shard):
            time.sleep(POLL)
        if self._error and not _complete(shard):
            raise self._error


def make_all(shards: Sequence[Shard], jobs: int) -> Iterator[Shard]:
    """Make and yield the files that are missing or have too few clips, as after a shorter run."""
    config, folder = shards[0].config, shards[0].folder
    _claim(folder, config)
    left = [each for each in shards if not _complete(each)]
    if not left:
        return
    rate = config.network.kind.rate(load_dictionary(config.network.model))
    recordings.prepare_recordings(config.data, rate, folder / "recordings", jobs)
    for outcome in pool.each(_make, left, workers=jobs, in_order=False):
        outcome.value()
        yield outcome.item


def _claim(folder: Path, config: Config) -> None:
    """Write the recipe to a new folder, or check that an existing one has the same recipe."""
    recipe = {
        key: value for key, value in config.as_dict()["mixtures"].items() if "clips" not in key
    }
    recipe |= {"data": config.as_dict()["data"], "model": config.network.model}
    recipe |= {
        "before": config.network.kind.earlier_networks,
        "kind": config.network.kind.network.kind,
    }
    text = json.dumps(recipe, indent=1) + "\n"
    written = folder / "recipe.json"
    make_folder(folder / "recordings" / "file", folder)
    try:
        known = written.read_text(encoding="utf-8") if written.exists() else None
    except (OSError, UnicodeDecodeError) as error:
        raise AlphaMFError(f"{printable_name(folder)} cannot be used: {reason(error)}") from error
    if known is None:
        with atomic_file(written, within=folder) as part:
            part.write_text(text, encoding="utf-8")
    elif known != text:
        raise AlphaMFError(
            f"{printable_name(folder)} contains mixtures with another recipe; choose another folder"
        )


def _make(shard: Shard, update: object) -> None:
    network = shard.config.network
    found = recordings.open_recordings(shard.folder / "recordings", shard.split)
    whole = Maker(shard.config.mixtures, found, _weights(network), network.kind)
    stream = recordings.SPLITS.index(shard.split)
    clips = [whole.clip(stream, shard.first + k) for k in range(shard.clips)]
    kinds = [(name, array.dtype, array.shape) for name, array in clips[0]._asdict().items()]
    rows = np.array([tuple(each) for each in clips], kinds)
    with (
        atomic_file(shard.path, within=shard.folder) as part,
        part.open("wb") as file,  # np.save hides why it fails
    ):
        np.lib.format.write_array_header_1_0(file, np.lib.format.header_data_from_array_1_0(rows))
        file.write(rows.view(np.uint8).data)


@cache
def _weights(network: Network) -> Weights:
    """Return the models for making clips, which are loaded once per process."""
    before = network.kind.earlier_networks
    if isinstance(network.kind, CausalHighBandKind | CausalSecondStageKind):
        choice = before[0] if before else "auto"
        return find(1, network.model, refiner="none", second_stage="none", causal=choice)
    if isinstance(network.kind, HighBandKind):
        found = find(FULL_BAND, network.model)
        if not before:
            return found
        refiner, second = (network_file.find(each) for each in before)
        return replace(found, refiner=Refiner.load(refiner), second_stage=SecondStage.load(second))
    return find(1, load_dictionary(network.model), refiner=before[0] if before else "none")


def _complete(shard: Shard) -> bool:
    return shard.path.exists() and len(_rows(shard)) >= shard.clips


def _rows(shard: Shard) -> Any:
    try:
        return np.load(shard.path, mmap_mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise AlphaMFError(
            f"{printable_name(shard.path)} cannot be read: {reason(error)}"
        ) from error


class Clips(Sequence[TrainingClip]):
    """The clips of all files, read from disk one at a time."""

    def __init__(self, shards: Sequence[Shard], making: Making | None = None) -> None:
        self._shards, self._making = shards, making
        self._ends = np.cumsum([shard.clips for shard in shards])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, index: Any) -> Any:
        k = range(len(self))[index]
        shard = int(np.searchsorted(self._ends, k, "right"))
        # Mapped anew each time: what was read of a file then leaves the memory of this process.
        if self._making:
            self._making.wait(self._shards[shard])
        row = _rows(self._shards[shard])[k - self._ends[shard] + self._shards[shard].clips]
        return KINDS[row.dtype.names](*(np.array(row[name]) for name in row.dtype.names))
