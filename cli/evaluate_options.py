"""Options of ``alphamf evaluate``, and the groups that its work is given."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alphamf.cli.options import RUN, Cluster, Quiet, json_option, model_option, seed_option
from alphamf.errors import AlphaMFError
from alphamf.tools.files import printable_name

if TYPE_CHECKING:
    from alphamf.evaluation.extra_scores import ExtraScores
    from alphamf.evaluation.methods import Entry
    from alphamf.evaluation.pairs import Pair

CORPUS = "Corpus"
METHOD = "Methods"
SCORING = "Scores and tables"


class TableFormat(StrEnum):
    """Output formats of a printed table."""

    markdown = "markdown"
    latex = "latex"


Clean = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="Clean speech: a folder, or a pattern in quotes.",
        show_default=False,
        rich_help_panel=CORPUS,
    ),
]

Noisy = Annotated[
    list[str] | None,
    typer.Option(
        metavar="DIR|GLOB",
        help="Noisy speech: a folder, or a pattern in quotes; can be repeated.",
        show_default=False,
        rich_help_panel=CORPUS,
    ),
]

Pairs = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.csv",
        help="Table of the pairs, instead of matching names: columns clean and noisy, "
        "optionally noise and snr.",
        show_default=False,
        rich_help_panel=CORPUS,
    ),
]

Limit = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Use only N clips, spread over the corpus; always the same ones.",
        rich_help_panel=CORPUS,
    ),
]

Method = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Method, several separated by commas, or all; NAME@MODEL for a method with its "
        "own speech model; NAME=FOLDER for the output files of another system, with "
        "the names of the noisy files; can be repeated.",
        show_default="noisy,oracle-mask,logmmse,is-nmf,fast",
        rich_help_panel=METHOD,
    ),
]

Model = Annotated[str, model_option(METHOD)]

Seed = Annotated[int, seed_option("result", METHOD)]

Asr = Annotated[
    str | None,
    typer.Option(
        metavar="RECOGNISER",
        help="Measure the word error rate with a speech recogniser: whisper (tiny.en), "
        "whisper:FOLDER for another model, pocketsphinx, or a command that prints the words of "
        "{file}.",
        rich_help_panel=SCORING,
    ),
]

Transcripts = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Transcripts: lines with a clean file's stem and its words; by default the "
        "recogniser's own transcript of the clean speech.",
        rich_help_panel=SCORING,
    ),
]

Dnsmos = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.onnx",
        help="Compute DNSMOS P.835 scores with this network.",
        rich_help_panel=SCORING,
    ),
]

Only = Annotated[
    bool,
    typer.Option(
        "--only",
        help="Leave methods from earlier runs out of the tables and the report.",
        rich_help_panel=SCORING,
    ),
]

Table = Annotated[
    TableFormat,
    typer.Option(help="Format of the printed table.", rich_help_panel=SCORING),
]

Output = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="DIR", help="Folder for the results.", rich_help_panel=RUN
    ),
]

Jobs = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Number of processes.",
        show_default="one per core",
        rich_help_panel=RUN,
    ),
]

Json = Annotated[bool, json_option("result")]


@dataclass(frozen=True)
class CorpusOptions:
    """The clips to evaluate on."""

    clean: Clean
    noisy: Noisy
    pairs: Pairs
    limit: Limit

    def clips(self, output: Path) -> Sequence[Pair]:
        """Return the pairs of noisy and clean clips; files in `output` are ignored."""
        from alphamf.evaluation.pairs import find_pairs, read_pairs, sample

        noisy = self.noisy or []
        if self.pairs is not None:
            self._check_folders(noisy)
            return sample(read_pairs(self.pairs, self.clean, next(iter(noisy), None)), self.limit)
        if self.clean is None or not noisy:
            raise AlphaMFError("give the corpus as --clean and --noisy, or as --pairs")
        return sample(find_pairs(self.clean, noisy, output=str(output)), self.limit)

    def _check_folders(self, noisy: Sequence[str]) -> None:
        """Refuse what a table of pairs does not go with."""
        if len(noisy) > 1:
            raise AlphaMFError(f"with --pairs, give one folder as --noisy, not {len(noisy)}")
        for option, folder in (("--clean", self.clean), *(("--noisy", name) for name in noisy)):
            if folder is not None and not os.path.isdir(folder):
                raise AlphaMFError(
                    f"{option} must be a folder if --pairs is given; {printable_name(folder)} "
                    "is not one"
                )


@dataclass(frozen=True)
class MethodOptions:
    """The methods to evaluate."""

    method: Method
    model: Model
    seed: Seed

    def entries(self) -> list[Entry]:
        """Return the methods."""
        from alphamf.evaluation.methods import DEFAULTS, resolve

        return resolve(self.method or DEFAULTS, self.model)


@dataclass(frozen=True)
class ScoringOptions:
    """Scores that are computed only on request."""

    asr: Asr
    transcripts: Transcripts
    dnsmos: Dnsmos

    def extra(self) -> ExtraScores:
        """Return the settings of the additional scores."""
        from alphamf.evaluation.extra_scores import parse_extra

        return parse_extra(self.asr, self.transcripts, self.dnsmos)


@dataclass(frozen=True)
class EvaluationRunOptions:
    """Where the work is done, and what is printed."""

    output: Output
    only: Only
    jobs: Jobs
    cluster: Cluster
    as_json: Json
    quiet: Quiet
