r"""How well 48 kHz are denoised above 8 kHz: the tables of ``docs/full-band.md``.

Mixtures of `benchmarks.full_band_mixtures` are denoised by several methods at 48 kHz and scored by
`benchmarks.full_band_scores`. Settings are chosen on the split ``dev``; the split ``test`` is for
the end. For example::

    python -m benchmarks.full_band --split dev --write
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from alphamf.evaluation.baselines.base import Clip
from alphamf.evaluation.methods import method
from alphamf.tools import tables
from alphamf.tools.blas import one_thread
from benchmarks.full_band_mixtures import KINDS, RATE, Mixture, mixtures
from benchmarks.full_band_scores import Scores, scores
from benchmarks.report import caption, options_of, write_section

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "full-band.md"
METHODS = "noisy,oracle-mask,rnnoise,fast,balanced"
HEADINGS = {
    "si_sdr": "SI-SDR dB",
    "segmental_snr": "segmental SNR dB",
    "distance": "log-spectral distance dB",
    "left": "left in pauses dB",
    "left_in_voice": "left in voice dB",
    "sibilants": "sibilants dB",
    "fricatives": "fricatives dB",
}
"""Field of `Scores` and heading."""

ON_PAGE = ("si_sdr", "segmental_snr", "distance", "left", "sibilants")
"""Scores that stay on the page; the others are in its CSV file."""

BY_KIND = ("si_sdr", "distance", "left", "left_in_voice", "fricatives")
"""Scores with a table of methods by kind of noise."""

Found = dict[str, list[tuple[str, Scores]]]
"""Kind of noise and scores of each mixture, by method."""


def measured(mixture: Mixture, spec: str) -> Scores:
    """Return the scores of a method on a mixture.

    Parameters
    ----------
    mixture
        At 48 kHz.
    spec
        As for ``alphamf evaluate --method``.
    """
    found = method(spec).run(Clip(mixture.noisy, RATE, mixture.clean))
    return scores(mixture.clean, mixture.noisy, found)


def table(found: Found) -> str:
    """Return the tables over all mixtures and by kind of noise, with standard errors."""
    lines = [
        [name, *(cell([getattr(row, field) for _, row in rows]) for field in HEADINGS)]
        for name, rows in found.items()
    ]
    parts = [tables.markdown(["method", *HEADINGS.values()], lines)]
    for field in BY_KIND:
        lines = [
            [
                kind,
                *(
                    cell([getattr(row, field) for each, row in rows if each == kind])
                    for rows in found.values()
                ),
            ]
            for kind in KINDS
        ]
        parts.append(tables.markdown([f"{HEADINGS[field]} by noise", *found], lines))
    return "\n\n".join(parts)


def cell(values: list[float]) -> str:
    """Return mean and standard error of the values that are no NaN, "-" without two of them."""
    known = [value for value in values if not np.isnan(value)]
    if len(known) < 2:
        return "-"
    mean, error = tables.mean_and_error(known)
    return f"{mean:.2f} ± {error:.2f}"


@one_thread()
def main() -> None:
    """Print the tables, or write them into the page."""
    parser = options_of("benchmarks.full_band", __doc__)
    parser.add_argument("--split", choices=("dev", "test"), default="dev")
    parser.add_argument("--methods", default=METHODS, help="with commas between")
    parser.add_argument("--write", action="store_true", help="into docs/full-band.md")
    asked = parser.parse_args()
    specs = asked.methods.split(",")
    found: Found = {spec: [] for spec in specs}
    every = mixtures(asked.split)
    for mixture in every:
        for spec in specs:
            found[spec].append((mixture.kind, measured(mixture, spec)))
        print(mixture.name, file=sys.stderr, flush=True)
    text = f"{table(found)}\n\n{len(every)} mixtures. " + caption(
        "benchmarks.full_band", sys.argv[1:], ("alphamf", "numpy")
    )
    if asked.write:
        columns = ["method", *(HEADINGS[field] for field in ON_PAGE)]
        columns += [f"{HEADINGS[field]} by noise" for field in BY_KIND] + specs
        folder = ROOT / "docs" / "benchmarks"
        write_section(PAGE, f"full-band:{asked.split}", text, columns=columns, folder=folder)
    else:
        print(text)


if __name__ == "__main__":
    main()
