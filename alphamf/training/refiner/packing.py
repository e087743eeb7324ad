r"""Pack what a training needs into one archive, for a machine with a graphics card.

For example::

    python -m alphamf.training.refiner.packing models/refiner-16k.toml -o data.tar

There, with the sources of alphamf::

    tar xf data.tar
    ALPHAMF_DATA=. python -m alphamf.training models/refiner-16k.toml --run RUN --device cuda
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
import tarfile
from collections.abc import Collection, Sequence
from pathlib import Path

from alphamf.errors import AlphaMFError
from alphamf.tools.files import atomic_file, check_writable, printable_name, reason
from alphamf.tools.manifest import MANIFEST, read_manifest
from alphamf.training.refiner import config_file
from alphamf.training.refiner.config import Config, Data
from alphamf.training.refiner.recordings import SPLITS, corpus, sources

LIMIT = 120.0
"""Largest size of an archive in MB, unless another one is asked for."""


def pack(config: Config, target: Path, limit: float = LIMIT) -> int:
    """Write an archive of the recordings that a training reads, and of its first network."""
    start = Path(config.network.start)
    networks = [start] if start.suffix == ".npz" else []  # others are in the package
    try:
        most = _most(config.data, limit * 1e6 - sum(path.stat().st_size for path in networks))
        _write(config.data, most, networks, target)
    except OSError as error:
        name = printable_name(error.filename or target)
        raise AlphaMFError(f"{name} cannot be packed: {reason(error)}") from error
    return most


def _write(data: Data, most: int, networks: Sequence[Path], target: Path) -> None:
    with atomic_file(target) as part, tarfile.open(part, "w") as archive:
        for path in networks:
            archive.add(path, path.name)
        for name, files in sorted(_files(data, most).items()):
            folder = corpus(name)
            for path in sorted(files):
                place = path.relative_to(folder)
                if ".." in place.parts:
                    raise AlphaMFError(
                        f"{printable_name(folder / MANIFEST)} names a file elsewhere"
                    )
                archive.add(path, f"corpora/{name}/{place}")
            _add_manifest(archive, name, files)


def _most(data: Data, room: float) -> int:
    """Return the largest number of files per speaker that fit into so many bytes."""
    for most in (data.most, 64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1):
        if data.most and most > data.most:
            continue
        size = sum(
            path.stat().st_size + 1024 for files in _files(data, most).values() for path in files
        )
        if size <= room:
            return most
    raise AlphaMFError(f"{size / 1e6:.0f} MB are needed even for one file per speaker")


def _files(data: Data, most: int) -> dict[str, set[Path]]:
    """Return the files of each corpus that trainings read."""
    found: dict[str, set[Path]] = {}
    for names, splits, limits in (
        ([*data.voices, *data.narrow], SPLITS, (most, data.quiet)),
        ([*data.sounds, *data.rooms], SPLITS, (0, 0.0)),
        (data.unscored, SPLITS[:1], (0, 0.0)),
    ):
        for name in names:
            if not (corpus(name) / MANIFEST).is_file():
                raise AlphaMFError(f"{printable_name(corpus(name))} has no {MANIFEST}")
            for split in splits:
                found.setdefault(name, set()).update(
                    Path(source.path) for source in sources(name, split, *limits)
                )
    return found


def _add_manifest(archive: tarfile.TarFile, name: str, files: Collection[Path]) -> None:
    """Add the rows of a manifest whose files are packed."""
    rows = [
        row for row in read_manifest(corpus(name), ["path"]) if corpus(name) / row["path"] in files
    ]
    text = io.StringIO()
    table = csv.DictWriter(text, list(rows[0]))
    table.writeheader()
    table.writerows(rows)
    packed = text.getvalue().encode()
    entry = tarfile.TarInfo(f"corpora/{name}/{MANIFEST}")
    entry.size = len(packed)
    archive.addfile(entry, io.BytesIO(packed))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        "python -m alphamf.training.refiner.packing",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("config", type=Path, metavar="CONFIG.toml")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.tar")
    parser.add_argument(
        "--limit",
        type=float,
        default=LIMIT,
        metavar="MB",
        help="largest size, for which files per speaker are left out (default: %(default)g)",
    )
    asked = parser.parse_args()
    try:
        check_writable(asked.output)
        most = pack(config_file.load(asked.config), asked.output, asked.limit)
        size = asked.output.stat().st_size / 1e6
        print(f"{printable_name(asked.output)}: {size:.1f} MB, at most {most} files per speaker")
    except AlphaMFError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
