"""Match noisy and clean files, by their names or from a table."""

import csv
import glob
import math
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from alphamf.batch.inputs import find
from alphamf.errors import AlphaMFError
from alphamf.tools.files import file_errors, is_special, printable_name, real_path

_SNR = re.compile(
    r"(?<![a-z0-9])snr?(?:[ _]?db)?[ _=]?(?P<after>-?\d+(?:\.\d+)?)(?:[ _]?db)?(?![a-z0-9])"
    r"|(?P<before>(?:(?<![a-z0-9])-)?(?<![\d.])\d+(?:\.\d+)?)[ _]?db(?![a-z0-9])",
    re.IGNORECASE,
)
"""Matches an SNR: ``sn5``, ``snr-5``, ``SNRdb_2.5``, ``-5 dB``; ``car-5dB`` has an SNR of 5 dB."""

_NOISE = re.compile(r"[^\W\d_]+(?:[ _-][^\W\d_]+)*\d{0,2}")
_ANY = re.compile(r".+")
_ROLE = re.compile(r"^(?:clean|noisy)\d*[ ._-]+|[ ._-]+(?:clean|noisy)\d*$", re.IGNORECASE)
_JOINTS = " ._-"


def core(name: str) -> str:
    """Return a file's stem in lower case, without the words clean and noisy at its ends."""
    return _core(name).lower()


def speeches(name: str) -> Iterator[str]:
    """Yield candidates for the clean file's `core`, given the noisy file's name; best first."""
    stem = core(name)
    yield stem
    joints = [k for k, letter in enumerate(stem) if letter in _JOINTS]
    for k in reversed(joints):
        yield stem[:k]
    for k in joints:
        # A number at the end can also be the level of the noise, or a count.
        if any(letter.isalpha() for letter in stem[k + 1 :]):
            yield stem[k + 1 :]


def condition(noisy: str, clean: str = "") -> tuple[str | None, float | None]:
    """Return the name of the noise and the SNR in dB, each None if it is missing.

    They stand next to each other in the name of the noisy file or of its folders, as in
    ``car_5dB/sp01.flac`` or ``sp01_car_sn5.wav``.
    """
    stem, speech = _core(noisy), core(clean)
    if speech and stem.lower().startswith(speech):
        stem = stem[len(speech) :]
    elif speech and stem.lower().endswith(speech):
        stem = stem[: -len(speech)]
    for part in (stem, *reversed(noisy.split("/")[:-1])):
        found = _SNR.search(part)
        if found is not None:
            sides = part[: found.start()].strip(_JOINTS), part[found.end() :].strip(_JOINTS)
            # A file's name has other parts as well; the rest of a folder's name is the noise.
            wanted = _NOISE if part is stem else _ANY
            noise = next((side for side in sides if wanted.fullmatch(side)), None)
            return noise, float(found["after"] or found["before"])
    return None, None


def _core(name: str) -> str:
    stem = os.path.splitext(name.split("/")[-1])[0]
    return _ROLE.sub("", stem) or stem


MOST_SHOWN = 40
"""Maximum number of characters of a table cell in an error message."""

MOST_PATH = 4096
"""Maximum number of characters of a path in a table."""


class Pair(NamedTuple):
    """A noisy file and its clean counterpart."""

    # noisy, clean: paths; `clean` is empty if no clean file was found, both are empty if one is a
    # pipe or a device.
    noisy: str
    clean: str
    # noisy_name, clean_name: the paths relative to a folder that contains all files of the kind,
    # with forward slashes; `clean_name` is empty if no clean file was found.
    noisy_name: str
    clean_name: str
    # noise, snr: name of the noise and SNR in dB; None if unknown.
    noise: str | None = None
    snr: float | None = None
    problem: str | None = None  # Why the pair cannot be used, in one sentence; None if it can


def find_pairs(clean: str, noisy: Sequence[str], *, output: str | None = None) -> list[Pair]:
    """Find clean and noisy files outside `output`, and match a clean one to each noisy one by name.

    The clean file's stem is that of the noisy one, else the longest prefix of it up to a separator
    (``sp01`` of ``sp01_car_sn5``), else the longest suffix (``fileid_3`` of ``sn5_fileid_3``). The
    words clean and noisy at the ends of stems are ignored. Of several such files, the one is used
    that shares most folders with the noisy file. A pair without a clean file has a `problem`.
    """
    clean_root, roots = _root("clean", clean), [_root("noisy", name) for name in noisy]
    clean_files, noisy_files = _outside(find([clean]), output), _outside(find(noisy), output)
    if any(_below(clean_root, root) and clean_root != root for root in roots):
        noisy_files = _without(noisy_files, clean_files)
    else:
        clean_files = _without(clean_files, noisy_files)
    if not noisy_files:
        raise AlphaMFError(f"`noisy` {printable_name(noisy[0])} contains only clean audio files")
    if not clean_files:
        raise AlphaMFError(f"`clean` {printable_name(clean)} contains only noisy audio files")
    names = _names(clean_files, [clean_root])
    by_core: dict[str, list[tuple[str, str]]] = {}
    for path, name in zip(clean_files, names, strict=True):
        by_core.setdefault(core(name), []).append((path, name))
    names = _names(noisy_files, roots)
    return _checked([_pair(*item, by_core) for item in zip(noisy_files, names, strict=True)])


def read_pairs(table: str, clean: str | None = None, noisy: str | None = None) -> list[Pair]:
    """Read pairs from a CSV file with the columns clean and noisy, optionally noise and snr.

    `clean`, `noisy`: folders that the paths in these columns are joined to; None: the table's
    folder. An AlphaMFError is raised if the table cannot be used.
    """
    if is_special(table):
        raise AlphaMFError(
            f"`pairs` needs a file, but {printable_name(table)} is a pipe or a device"
        )
    with (
        file_errors(table, "read", ValueError, csv.Error),
        open(table, newline="", encoding="utf-8-sig", errors="surrogateescape") as file,
    ):
        lines = list(csv.DictReader(file))
    if not lines:
        raise AlphaMFError(f"{printable_name(table)} contains no pairs")
    cleans, clean_names = _column("clean", lines, table, clean)
    noisies, noisy_names = _column("noisy", lines, table, noisy)
    pairs = []
    for number, row in enumerate(lines):
        noise, snr = condition(noisy_names[number], clean_names[number])
        snr = _number(row["snr"], table, number + 1) if row.get("snr") else snr
        pairs.append(
            Pair(
                noisies[number],
                cleans[number],
                noisy_names[number],
                clean_names[number],
                row.get("noise") or noise,
                snr,
            )
        )
    return _checked(pairs)


def sample(pairs: Sequence[Pair], count: int | None) -> Sequence[Pair]:
    """Return at most `count` random pairs in order, always the same ones; with None, all pairs."""
    if count is None or count >= len(pairs):
        return pairs
    import numpy as np

    order = np.random.default_rng(0).permutation(len(pairs))[:count]
    return [pairs[k] for k in sorted(order)]


def _column(
    name: str, rows: list[dict[str, str]], table: str, folder: str | None
) -> tuple[list[str], list[str]]:
    """Return the paths in a column, joined to `folder` (None: the table's), and their names."""
    folder = os.path.dirname(table) if folder is None else folder
    for number, row in enumerate(rows, 1):
        if not row.get(name):
            raise AlphaMFError(f"row {number} of {printable_name(table)} has no {name} file")
        if "\0" in row[name] or len(row[name]) > MOST_PATH:
            sentence = (
                f"the {name} file in row {number} of {printable_name(table)} has an impossible name"
            )
            raise AlphaMFError(f"{sentence}: {printable_name(row[name][:MOST_SHOWN])}...")
    paths = [os.path.normpath(os.path.join(folder, row[name])) for row in rows]
    return paths, _names(paths, [folder])


def _number(text: str, table: str, number: int) -> float:
    """Return the SNR in a row; raise an AlphaMFError if `text` is not a finite number."""
    with suppress(ValueError):
        if math.isfinite(found := float(text)):
            return found
    start = text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."
    sentence = f"the snr in row {number} of {printable_name(table)} is not a number"
    raise AlphaMFError(f"{sentence}: {start!r}")


def _pair(path: str, name: str, by_core: dict[str, list[tuple[str, str]]]) -> Pair:
    found = next((by_core[stem] for stem in speeches(name) if stem in by_core), [])
    folders = set(name.split("/")[:-1])
    shared = [len(folders & set(clean.split("/")[:-1])) for _, clean in found]
    best = [item for item, count in zip(found, shared, strict=True) if count == max(shared)]
    noise, snr = condition(name, best[0][1] if best else "")
    if len(best) == 1:
        return Pair(path, best[0][0], name, best[0][1], noise, snr)
    sentence = f"no clean file matches {printable_name(name)}"
    if best:
        some = " and ".join(printable_name(clean) for _, clean in best[:2])
        sentence = f"several clean files match {printable_name(name)}: {some}"
    return Pair(path, "", name, "", noise, snr, sentence)


def _checked(pairs: list[Pair]) -> list[Pair]:
    """Return each pair once, with a `problem` for an earlier pair's output, a pipe or a device."""
    taken: dict[str, str] = {}
    result = []
    for pair in dict.fromkeys(pairs):
        stem, name = os.path.splitext(pair.noisy_name)[0], printable_name(pair.noisy_name)
        if stem in taken:
            pair = pair._replace(problem=f"{name} would have the same output as {taken[stem]}")
        if is_special(pair.noisy) or is_special(pair.clean):
            path = pair.noisy if is_special(pair.noisy) else pair.clean
            # Such files are never opened, not even to compare them with those of an earlier run.
            problem = f"{printable_name(path)} is a pipe or a device, not a file"
            pair = pair._replace(noisy="", clean="", problem=problem)
        taken.setdefault(stem, name)
        result.append(pair)
    return result


def _root(argument: str, name: str) -> str:
    """Return the real path of the folder `name`, or of the folder of the file or pattern `name`."""
    if os.path.isdir(name):
        return real_path(name)
    parts = Path(name).parts[:-1]
    if not os.path.lexists(name):
        if not glob.has_magic(name):
            raise AlphaMFError(f"`{argument}` {printable_name(name)} does not exist")
        fixed = next((k for k, part in enumerate(parts) if glob.has_magic(part)), len(parts))
        parts = parts[:fixed]
    return real_path(os.path.join(os.curdir, *parts))


def _names(paths: Sequence[str], roots: Sequence[str]) -> list[str]:
    """Return paths relative to the common folder of `roots`, or of `paths` if one lies outside."""
    full = [os.path.join(real_path(os.path.dirname(p)), os.path.basename(p)) for p in paths]
    root = os.path.commonpath([real_path(root) for root in roots])
    if not all(_below(path, root) for path in full):
        root = os.path.commonpath([os.path.dirname(path) for path in full])
    return [Path(path).relative_to(root).as_posix() for path in full]


def _below(path: str, folder: str) -> bool:
    return Path(path).is_relative_to(folder)


def _outside(paths: Sequence[str], folder: str | None) -> list[str]:
    real = None if folder is None else real_path(folder)
    return [path for path in paths if real is None or not _below(real_path(path), real)]


def _without(paths: Sequence[str], others: Sequence[str]) -> list[str]:
    taken = {real_path(path) for path in others}
    return [path for path in paths if real_path(path) not in taken]
