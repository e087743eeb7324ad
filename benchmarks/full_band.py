r"""How well 48 kHz are denoised above 8 kHz: the tables of ``docs/full-band.md``.

Mixtures of `benchmarks.full_band_mixtures` are denoised by several methods at 48 kHz and scored by
`benchmarks.full_band_scores`. Settings are chosen on the split ``dev``; the split ``test`` is for
the end. For example::

    python -m benchmarks.full_band --split dev -o dev.jsonl --write

Other denoisers come with ``pip install 'alphamf[peers]'``.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from alphamf.denoising.api import denoise
from alphamf.denoising.stream import Stream
from alphamf.denoising.weights import find, find_online
from alphamf.evaluation.baselines.base import Clip
from alphamf.evaluation.methods import method
from alphamf.tools import jsonlines, tables
from alphamf.tools.blas import one_thread
from benchmarks.full_band_mixtures import KINDS, RATE, Mixture, mixtures
from benchmarks.full_band_scores import Scores, scores
from benchmarks.report import caption, options_of, run_main, write_section

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "full-band.md"
ONE_GAIN, LOW_ONE_GAIN = "one-gain", "low-one-gain"
"""`fast` and low latency without the bands above 7.5 kHz: all that lies there has the gain of the
band's top."""

METHODS = f"noisy,oracle-mask,rnnoise,deepfilternet,{ONE_GAIN},fast,{LOW_ONE_GAIN},low"
HEADINGS = {
    "si_sdr": "SI-SDR dB",
    "segmental_snr": "segmental SNR dB",
    "distance": "log-spectral distance dB",
    "left": "left in pauses dB",
    "left_in_voice": "left in voice dB",
    "sibilants": "sibilants dB",
    "fricatives": "fricatives dB",
    "sibilants_together": "sibilants together dB",
}
"""Field of `Scores` and heading."""

ON_PAGE = ("si_sdr", "segmental_snr", "distance", "left", "sibilants")
"""Scores that stay on the page; the others are in its CSV file."""

BY_KIND = ("si_sdr", "distance", "left", "left_in_voice", "fricatives")
"""Scores with a table of methods by kind of noise."""

COLUMNS = ("oracle-mask", "rnnoise", "deepfilternet", ONE_GAIN, "fast", LOW_ONE_GAIN, "low")
"""Methods that stay on the page in those tables."""

Found = dict[str, list[tuple[str, Scores]]]
"""Kind of noise and scores of each mixture, by method."""


def measured(mixture: Mixture, spec: str) -> Scores:
    """Return the scores of a method on a mixture.

    Parameters
    ----------
    mixture
        At 48 kHz.
    spec
        As for ``alphamf evaluate --method``, or `ONE_GAIN` or `LOW_ONE_GAIN`.
    """
    if spec == ONE_GAIN:
        weights = find(RATE)
        bare = replace(weights, dictionary=replace(weights.dictionary, above=None), high_band=None)
        found = denoise(mixture.noisy, RATE, "fast", model=bare).audio
    elif spec == LOW_ONE_GAIN:
        bare = replace(find_online(RATE), causal_high_band=None)
        stream = Stream(RATE, 1, model=bare, latency="low")
        found = np.concatenate([stream.process(mixture.noisy[:, None]), stream.flush()])[:, 0]
    else:
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


def differences(found: Found, reference: str) -> str:
    """Return the table of mean differences to a method, mixture by mixture."""
    lines = []
    for name, rows in found.items():
        pairs = zip(rows, found[reference], strict=True)
        apart = [Scores(*np.subtract(row, other)) for (_, row), (_, other) in pairs]
        cells = (cell([getattr(row, field) for row in apart]) for field in ON_PAGE)
        lines.append([name, *cells])
    headings = (HEADINGS[field] for field in ON_PAGE)
    return tables.markdown([f"less {reference}", *headings], lines)


def cell(values: list[float]) -> str:
    """Return mean and standard error of the values that are no NaN, "-" without two of them."""
    known = [value for value in values if not np.isnan(value)]
    if len(known) < 2:
        return "-"
    mean, error = tables.mean_and_error(known)
    return tables.format_mean(mean, error, 2)


def results(split: str, specs: list[str], path: Path, noises: int = 1) -> Found:
    """Return the scores of all mixtures, and append those that a file has not yet.

    Parameters
    ----------
    split, noises
        Of the mixtures.
    specs
        Methods.
    path
        JSON lines of one version of the code; a run that was broken off goes on there.
    """
    known = {(item["name"], item["method"]): item for item in lines_of(path)}
    found: Found = {spec: [] for spec in specs}
    for mixture in mixtures(split, noises=noises):
        for spec in specs:
            item = known.get((mixture.name, spec))
            if item is None:
                row = measured(mixture, spec)._asdict()
                item = {"name": mixture.name, "method": spec, "kind": mixture.kind, **row}
                jsonlines.append(path, item)
                print(mixture.name, spec, file=sys.stderr, flush=True)
            values = (np.nan if item[field] is None else item[field] for field in Scores._fields)
            found[spec].append((mixture.kind, Scores(*values)))
    return found


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file that may not be there yet."""
    return list(jsonlines.read(path)) if path.exists() else []


@one_thread()
def main() -> None:
    """Print the tables, or write them into the page."""
    parser = options_of("benchmarks.full_band", __doc__)
    parser.add_argument("--split", choices=("dev", "test"), default="dev")
    parser.add_argument("--noises", type=int, default=1, metavar="N", help="of a voice (default 1)")
    parser.add_argument("--methods", default=METHODS, help="with commas between")
    parser.add_argument("--against", default=ONE_GAIN, help="a method to subtract")
    parser.add_argument("-o", "--output", type=Path, required=True, help="scores, to go on with")
    parser.add_argument("--write", action="store_true", help="into docs/full-band.md")
    asked = parser.parse_args()
    specs = asked.methods.split(",")
    if asked.against not in specs:
        parser.error(f"--against {asked.against} is none of the methods {asked.methods}")
    found = results(asked.split, specs, asked.output, asked.noises)
    made = caption("benchmarks.full_band", sys.argv[1:], ("alphamf", "numpy"))
    parts = [table(found), differences(found, asked.against)]
    text = "\n\n".join([*parts, f"{len(found[specs[0]])} mixtures. {made}"])
    if asked.write:
        columns = ["method", f"less {asked.against}", *COLUMNS]
        columns += [HEADINGS[field] for field in ON_PAGE]
        columns += [f"{HEADINGS[field]} by noise" for field in BY_KIND]
        stem = ROOT / "docs" / "benchmarks" / f"full-band-{asked.split}"
        write_section(PAGE, f"full-band:{asked.split}", text, columns=columns, stem=stem)
    else:
        print(text)


if __name__ == "__main__":
    run_main(main)
