"""Recordings for mixtures: listed by manifests, decoded once, and memory-mapped.

In a folder with a ``MANIFEST.csv``, the column ``split`` selects the files for training (``train``)
and for scores (``dev``); files of other splits are never read. In other folders, every fifth file
is used for scores, or the last fifth of every file if there are fewer than five.
"""

import os
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from alphamf.audio import stft
from alphamf.audio.reader import read
from alphamf.audio.resample import resample
from alphamf.audio.stft import Frame
from alphamf.batch.inputs import find
from alphamf.denoising.gain import remove_floor
from alphamf.denoising.grids import Grid
from alphamf.errors import AlphaMFError
from alphamf.learnt.bands import FULL_BAND
from alphamf.tools import pool
from alphamf.tools.arrays import Floats
from alphamf.tools.files import atomic_file, printable_name, reason
from alphamf.tools.tables import MANIFEST, read_manifest
from alphamf.training.refiner.config import Data
from alphamf.training.refiner.shaping import Rng

FRAME = Frame(768, 384)
KNOWN = (5000, 7500)
"""The highest band that voices at 16 kHz and full-band voices both have, in Hz."""

EDGE, END = 7600, 20000
"""Start and end of the synthetic band in Hz; speech resampled from 16 kHz ends at the first."""

PLACES = (7500.0, 9000.0, 11250.0, 14250.0, 18000.0)
DROPS = ((0.0, 0.0), (6.0, 20.0), (0.0, 10.0), (4.0, 14.0), (8.0, 20.0))
"""Frequencies in Hz, and ranges in dB by which loud frames are softer than one frequency before."""

FOLLOWING = (0.7, 1.05)
"""Range of the drop of the synthetic band's level, in dB per dB of drop of the level of `KNOWN`."""

LOWER = (2000, 5000)
"""Band just below `KNOWN` in Hz. A frame that is softer in it than in `KNOWN` is a sibilant, and
real sibilants have nearly as much power at 9 kHz as in `KNOWN`."""

USUAL, TILTED = -10.0, (-20.0, 15.0)
"""Level of `KNOWN` over `LOWER` in dB that leaves the synthetic band unchanged, and the range to
which this level is limited."""

WANDERING, MEMORY = 6.0, 0.9
"""Standard deviation in dB of the synthetic band's random variation; correlation between frames."""


def widen_band(rng: Rng, sound: Floats, rate: int, tilts: Sequence[float] = (0.0, 0.0)) -> Floats:
    """Return a voice at `FULL_BAND`, with a synthetic band up to `END`.

    `sound`, `rate`: shape (samples,), and its sampling rate in Hz, of 16 kHz or more. `tilts`: the
    smallest and the largest slope, in dB of the band per dB of `KNOWN` relative to `LOWER`, which
    is high in sibilants; 0 to 0.9 in most of the full-band voices used for training.

    Above 8 kHz a voice is noise, whose level follows the level from 5 to 7.5 kHz. How much softer
    the noise is in each band, how closely it follows, and how much louder it is in sibilants are
    drawn at random from ranges that a regression on full-band voices gave.
    """
    wide = resample(sound, rate, FULL_BAND)
    frequencies = Grid(FULL_BAND, FRAME).frequencies
    power = np.abs(stft.forward(wide, FRAME)) ** 2
    level, lower = (
        10 * np.log10(power[slice(*np.searchsorted(frequencies, band))].mean(axis=0) + 1e-12)
        for band in (KNOWN, LOWER)
    )
    loud = np.percentile(level, 95)
    drops = np.cumsum([rng.uniform(*each) for each in DROPS])
    below = np.interp(frequencies, PLACES, drops)[:, None]
    follows = loud + rng.uniform(*FOLLOWING) * (level - loud) + _wandering(rng, len(level))
    if any(tilts):  # older recipes draw no number here, and give the same bands
        least, most = tilts
        follows += rng.uniform(least, most) * (np.clip(level - lower, *TILTED) - USUAL)
    hiss = stft.forward(rng.standard_normal(len(wide)).astype(np.float32), FRAME)
    hiss[(frequencies < EDGE) | (frequencies > END)] = 0
    unit = np.sqrt(FRAME.n_fft / 2)  # of white noise, in such windows
    made = hiss / unit * 10 ** ((follows - below) / 20)
    return wide + stft.inverse(made.astype(np.complex64), FRAME, len(wide))


def _wandering(rng: Rng, frames: int) -> Floats:
    """Draw a first-order autoregressive process in dB, shape (frames,)."""
    from scipy.signal import lfilter

    steps = rng.standard_normal(frames) * WANDERING * np.sqrt(1 - MEMORY**2)
    return lfilter([1.0], [1.0, -MEMORY], steps)


SPLITS = ("train", "dev")

LEVELS = ("level_p10_db", "level_p90_db")
"""Manifest columns: percentiles 10 and 90 of the levels of a recording's frames, in dB."""

RECORDED = ("voices", "sounds", "rooms")
"""Fields of `SplitRecordings` that are decoded from files."""

HELD_OUT = 5
"""In a folder without a manifest, one file in this many is used for scores."""


class SplitFile(NamedTuple):
    """A file of a split, or a part of one."""

    path: str  # Path of the file
    part: tuple[float, float] = (0.0, 1.0)  # Fractions of the file at which reading starts and ends


class SplitRecordings(NamedTuple):
    """All recordings of a split, each of shape (samples,), float32."""

    # voices, sounds, rooms: clean speech, other sounds, and impulse responses of rooms.
    voices: Sequence[Floats]
    sounds: Sequence[Floats]
    rooms: Sequence[Floats]
    # The voices without their background hiss, in the same order; empty: `voices` are the targets.
    targets: Sequence[Floats] = ()


def corpus(name: str) -> Path:
    """Return the folder `name`; if there is none, that in ``$ALPHAMF_DATA/corpora``, if any."""
    folder, data = Path(name), os.environ.get("ALPHAMF_DATA")
    if data and not folder.exists():
        known = Path(data, "corpora", name)
        folder = known if known.is_dir() else folder
    return folder


def sources(name: str, split: str, most: int = 0, quiet: float = 0.0) -> list[SplitFile]:
    """List the files of a split of a corpus.

    `most`, `quiet`: as in `Data`; with `quiet`, files whose levels the manifest does not list are
    left out, too. Without a manifest `most` has no effect, and `quiet` raises an AlphaMFError.
    """
    folder = corpus(name)
    if not (folder / MANIFEST).is_file():
        if quiet:
            raise AlphaMFError(
                f"{printable_name(folder)} has no {MANIFEST} with levels, nor has a corpus of that "
                "name below ALPHAMF_DATA"
            )
        return _without_manifest([str(path) for path in find([str(folder)])], split)
    columns = ["split", "path", *(["speaker"] if most else []), *(LEVELS if quiet else [])]
    rows = [row for row in read_manifest(folder, columns) if row["split"] == split]
    rows = [row for row in rows if not quiet or _depth(folder, row) >= quiet]
    chosen = _few(rows, most) if most else rows
    return [SplitFile(str(folder / row["path"])) for row in chosen]


def _depth(folder: Path, row: dict[str, str]) -> float:
    """Return the difference of the two `LEVELS` in dB; -1 if one is missing or it is negative."""
    try:
        low, high = (float(row[column] or "nan") for column in LEVELS)
    except ValueError as error:
        raise AlphaMFError(
            f"{printable_name(folder / MANIFEST)} cannot be read: the level of {row['path']} is "
            "no number"
        ) from error
    return high - low if high >= low else -1.0


def _few(rows: list[dict[str, str]], most: int) -> list[dict[str, str]]:
    """Return at most `most` evenly spaced rows per speaker, speaker by speaker."""
    speakers: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        speakers.setdefault(row["speaker"], []).append(row)
    chosen = []
    for files in speakers.values():
        count = min(most, len(files))
        chosen += [files[k * len(files) // count] for k in range(count)]
    return chosen


def _without_manifest(paths: list[str], split: str) -> list[SplitFile]:
    if len(paths) >= HELD_OUT:
        held_out = [k % HELD_OUT == HELD_OUT - 1 for k in range(len(paths))]
        return [
            SplitFile(p) for p, out in zip(paths, held_out, strict=True) if out == (split == "dev")
        ]
    border = 1 - 1 / HELD_OUT
    return [SplitFile(path, (border, 1.0) if split == "dev" else (0.0, border)) for path in paths]


def prepare_recordings(data: Data, rate: int, folder: Path, jobs: int = 1) -> None:
    """Decode and resample all recordings into files in `folder`, as `open_recordings` reads them.

    Existing files are not created again. An AlphaMFError is raised if a split has no voices or no
    other sounds, or for a recording below `rate` in Hz, except for those of `Data.narrow`.
    """
    for split in SPLITS:
        for kind in RECORDED:
            names, target = getattr(data, kind), _file(folder, split, kind)
            if kind == "sounds" and split == "train":
                names += data.unscored
            if not target.exists():
                if kind == "voices":
                    count = _write(target, _voices(data, split, rate, jobs))
                else:
                    count = _write(target, _decoded(names, split, rate, jobs))
                # A corpus may have no dev rooms: those of training do then, as no voice is in them.
                if not count and kind == "rooms" and split == "dev":
                    _write(target, _decoded(names, "train", rate, jobs))
                if not count and kind != "rooms":
                    target.unlink()
                    raise AlphaMFError(
                        f"[data] {kind}: {', '.join(map(printable_name, names))} has no "
                        "recording with sound in "
                        f"the split {split}"
                    )
        targets = _file(folder, split, "targets")
        if data.floorless and not targets.exists():
            voices = _read(_file(folder, split, "voices"))
            _write(targets, pool.results(partial(remove_floor, rate=rate), voices, workers=jobs))


def open_recordings(folder: Path, split: str) -> SplitRecordings:
    """Return the recordings of a split written by `prepare_recordings`, as memory-mapped views."""
    found = {kind: _read(_file(folder, split, kind)) for kind in RECORDED}
    targets = _file(folder, split, "targets")
    return SplitRecordings(**found, targets=_read(targets) if targets.exists() else ())


def _file(folder: Path, split: str, kind: str) -> Path:
    return folder / f"{kind}-{split}.f32"


def _voices(data: Data, split: str, rate: int, jobs: int) -> Iterator[Floats]:
    limits = (data.most, data.quiet)
    yield from _decoded(data.voices, split, rate, jobs, *limits)
    files = [file for name in data.narrow for file in sources(name, split, *limits)]
    for k, file in enumerate(files):
        sound, found = read(file.path)
        if sound.any():
            rng = np.random.default_rng([k, *split.encode()])
            yield widen_band(rng, sound.mean(axis=1), found, data.tilts)


def _decoded(
    names: Sequence[str],
    split: str,
    rate: int,
    jobs: int,
    most: int = 0,
    quiet: float = 0.0,
) -> Iterator[Floats]:
    files = [file for name in names for file in sources(name, split, most, quiet)]
    for sound in pool.results(partial(_decode, rate=rate), files, workers=jobs):
        if sound.any():
            yield sound


def _decode(source: SplitFile, rate: int) -> Floats:
    """Read part of a file, and return the mean of its channels at `rate`, shape (samples,)."""
    sound, found = read(source.path)
    if found < rate:
        raise AlphaMFError(
            f"{printable_name(source.path)} has a rate of {found} Hz, but mixtures at {rate} Hz "
            "need at least that rate"
        )
    first, last = (int(part * len(sound)) for part in source.part)
    return resample(sound[first:last].mean(axis=1), found, rate)


def _write(target: Path, sounds: Iterator[Floats]) -> int:
    """Write all samples as float32, then lengths and their number as int64; return the number."""
    lengths = []
    with atomic_file(target, within=target.parent.parent) as part, part.open("wb") as file:
        for sound in sounds:
            file.write(sound.astype(np.float32, copy=False).tobytes())
            lengths.append(len(sound))
        if sum(lengths) % 2:  # integers lie at multiples of their size
            file.write(bytes(4))
        file.write(np.array([*lengths, len(lengths)], np.int64).tobytes())
    return len(lengths)


def _read(path: Path) -> list[Floats]:
    try:
        flat = np.memmap(path, np.float32, "r").view(np.ndarray)
    except OSError as error:
        raise AlphaMFError(f"{printable_name(path)} cannot be read: {reason(error)}") from error
    count = int(flat[-2:].view(np.int64)[0])
    lengths = flat[len(flat) - 2 - 2 * count : len(flat) - 2].view(np.int64)
    ends = np.cumsum(lengths)
    return [flat[end - length : end] for end, length in zip(ends, lengths, strict=True)]
