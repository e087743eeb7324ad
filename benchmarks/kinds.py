r"""Sort the noises of a corpus with a MANIFEST.csv into folders by kind, for ``alphamf mix``.

For example, a corpus at 16 kHz of speakers and noises that no setting was chosen on::

    python -m benchmarks.kinds --split dev -o kinds
    alphamf mix librispeech-dev --noise kinds -o mixed --count 120

The manifest has the columns path, split and kind (impulsive, stationary, babble, nonstationary).
The folders hold links. The corpus is ``$ALPHAMF_DATA/corpora/noise-dev``.
"""

from __future__ import annotations

import csv
from pathlib import Path

from alphamf.errors import AlphaMFError
from benchmarks.front_clips import corpora
from benchmarks.report import options_of, run_main


def main() -> None:
    """Make the folders that the command line asks for."""
    parser = options_of("benchmarks.kinds", __doc__)
    parser.add_argument("--split", metavar="NAME", help="train or dev (default: all)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")
    asked = parser.parse_args()
    folder = (corpora() / "noise-dev").resolve()
    if not (folder / "MANIFEST.csv").is_file():
        raise AlphaMFError(f"there is no noise in {folder}: set ALPHAMF_DATA")
    with (folder / "MANIFEST.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if asked.split in (None, row["split"])]
    for row in rows:
        link = asked.output / row["kind"] / row["path"].replace("/", "-")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(folder / row["path"])
    print(f"{asked.output}: {len(rows)} noises")


if __name__ == "__main__":
    run_main(main)
