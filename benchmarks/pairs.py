r"""Make the table of pairs of a corpus that has a MANIFEST.csv, for ``alphamf evaluate --pairs``.

For example, the test sentences of NOIZEUS at 5 dB::

    python -m benchmarks.pairs noizeus --split test --snr 5 -o pairs.csv
    alphamf evaluate --pairs pairs.csv --clean noizeus --noisy noizeus

The manifest has the columns path, split, speaker (the sentence), noise and snr_db, which is
``clean`` for clean files. Paths are relative to the corpus's folder, ``noizeus`` above.
"""

from __future__ import annotations

import csv
from pathlib import Path

from alphamf.errors import AlphaMFError
from alphamf.research.corpora import find
from alphamf.tools.files import reason
from benchmarks.report import options_of, run_main


def pairs(
    manifest: list[dict[str, str]], *, split: str | None, snrs: list[str]
) -> list[dict[str, str]]:
    """Return the pairs of a manifest, of one split and some levels, or of all.

    Parameters
    ----------
    manifest
        Its rows.
    split
        Such as ``test``; None for all.
    snrs
        Levels in dB as the manifest has them; empty for all.
    """
    clean = {row["speaker"]: row["path"] for row in manifest if row["snr_db"] == "clean"}
    return [
        {
            "clean": clean[row["speaker"]],
            "noisy": row["path"],
            "noise": row["noise"],
            "snr": row["snr_db"],
        }
        for row in manifest
        if row["snr_db"] != "clean"
        and split in (None, row["split"])
        and (not snrs or row["snr_db"] in snrs)
    ]


def corpus(*, split: str | None, snrs: list[str]) -> list[dict[str, str]]:
    """Return the pairs of NOIZEUS, as `pairs` does.

    Raises
    ------
    AlphaMFError
        The corpus is not here, or has no such files.
    """
    try:
        with (find("noizeus") / "MANIFEST.csv").open(newline="", encoding="utf-8") as file:
            rows = pairs(list(csv.DictReader(file)), split=split, snrs=snrs)
    except OSError as error:
        raise AlphaMFError(f"NOIZEUS's MANIFEST.csv cannot be read: {reason(error)}") from error
    if not rows:
        raise AlphaMFError("NOIZEUS has no such files")
    return rows


def files(*, split: str | None, snrs: list[str]) -> list[tuple[Path, Path]]:
    """Return the clean and the noisy file of each of `corpus`."""
    folder = find("noizeus")
    return [
        (folder / row["clean"], folder / row["noisy"]) for row in corpus(split=split, snrs=snrs)
    ]


def main() -> None:
    """Write what the command line asks for."""
    parser = options_of("benchmarks.pairs", __doc__)
    parser.add_argument("corpus", choices=["noizeus"])
    parser.add_argument("--split", metavar="NAME", help="train or test (default: all)")
    parser.add_argument("--snr", metavar="DB,DB,...", help="levels (default: all)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.csv")
    asked = parser.parse_args()
    rows = corpus(split=asked.split, snrs=asked.snr.split(",") if asked.snr else [])
    with asked.output.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    print(f"{asked.output}: {len(rows)} pairs")


if __name__ == "__main__":
    run_main(main)
