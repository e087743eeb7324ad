r"""Put the summary of an evaluation into BENCHMARKS.md or docs/benchmarks/quality.md.

For example::

    python -m benchmarks.pairs noizeus --split test --snr 5 -o pairs.csv
    alphamf evaluate --pairs pairs.csv --clean noizeus --noisy noizeus --output evaluation
    python -m benchmarks.evaluate evaluation --table noizeus-5dB --groups 'PESQ by noise'

The folder's summary.md becomes the section evaluate:NAME, above the command that made it, on the
page that has such a section already, or else on BENCHMARKS.md. Its tables go to
docs/benchmarks/evaluate-FOLDER.csv as they are. On the page stay ``--columns`` of the first one,
and `METHODS` of those that ``--groups`` names.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.report import options_of, run_main, write_section

REPOSITORY = Path(__file__).parents[1]
COLUMNS = "method,SI-SDR dB,PESQ,ESTOI,CPU s per s"
METHODS = ("noisy", "rnnoise", "deepfilternet", "low", "fast")
"""Columns of the tables by noise, by SNR and by clean file that stay on the page."""


def caption(settings: dict[str, Any]) -> str:
    """Return how an evaluation was made: seed, command, date, versions, processors."""
    versions = ", ".join(f"{name} {number}" for name, number in settings["packages"].items())
    return (
        f"Seed {settings['seed']}. `{settings['command']}`, {settings['date']}; {versions}, "
        f"Python {settings['python']}; "
        f"{settings['cpus']} CPUs, one thread per process."
    )


def main() -> None:
    """Replace the section, and print it."""
    parser = options_of("benchmarks.evaluate", __doc__)
    parser.add_argument("folder", type=Path, help="what --output was")
    parser.add_argument("--table", required=True, metavar="NAME", help="name of the section")
    parser.add_argument("--columns", default=COLUMNS, metavar="A,B,...", help=f"({COLUMNS})")
    parser.add_argument("--groups", default="", metavar="A,B,...", help="(default: none)")
    asked = parser.parse_args()
    try:
        summary = (asked.folder / "summary.md").read_text(encoding="utf-8").strip()
        settings = json.loads((asked.folder / "settings.json").read_text(encoding="utf-8"))
    except OSError as error:
        parser.error(f"{asked.folder} does not hold an evaluation that has ended: {error}")
    text = f"{summary}\n\n{caption(settings)}"
    pages = [REPOSITORY / "BENCHMARKS.md", REPOSITORY / "docs" / "benchmarks" / "quality.md"]
    marker = f"<!-- evaluate:{asked.table} -->"
    page = next((each for each in pages if each.exists() and marker in each.read_text()), pages[0])
    columns = [*asked.columns.split(","), *asked.groups.split(","), *METHODS]
    stem = REPOSITORY / "docs" / "benchmarks" / f"evaluate-{asked.folder.resolve().name}"
    write_section(page, f"evaluate:{asked.table}", text, columns=columns, stem=stem)
    print(text)


if __name__ == "__main__":
    run_main(main)
