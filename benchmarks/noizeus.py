r"""Scores of the samplers and of the paper's settings on NOIZEUS: telephone speech in eight noises.

Two tables of docs/samplers.md come from the 10 test sentences (1, 4, ..., 28), each in 8 noises;
those that compare the presets with other denoisers are made by ``alphamf evaluate``::

    python -m benchmarks.noizeus --configs noisy 'sampler-*' --table samplers
    python -m benchmarks.noizeus --configs noisy 'printed-*' 'tuned-*' --table paper

Settings were chosen without them, on the other 20 sentences, by cross-validation in 4 folds: the
dictionary is trained on 15 sentences, and the other 5 are denoised in all 8 noises::

    python -m benchmarks.noizeus --cross-validate --configs noisy balanced-own

Configurations (``--configs`` takes names and patterns):

noisy
    The input as it is.
PRESET-own, PRESET-shipped
    A preset, with a dictionary trained on the corpus's other sentences (in the same voices), or
    with the shipped one (voices that are not in the corpus).
sampler-NAME
    Every sampler from the same warm-up and for the steps of the preset ``plain``, own
    dictionary; SGLD, PSGLD and HAMCMC under a Gamma prior of shape 1 (`Settings.speech_prior`).
printed-NAME, tuned-NAME
    The preset ``paper`` with a dictionary of 100 single frames at alpha = 1.2, and the paper's
    printed step sizes or those of `alphamf.denoising.settings.HYPERPARAMETERS`, which are tuned on
    train sentences.

The corpus is in ``$ALPHAMF_DATA/corpora/noizeus`` (by default ``../shared`` is ALPHAMF_DATA), with
a MANIFEST.csv of path, split, speaker (the sentence), noise and snr_db.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import track

from alphamf.audio.reader import read
from alphamf.denoising.api import PRESETS, Settings, denoise
from alphamf.denoising.settings import HYPERPARAMETERS
from alphamf.errors import AlphaMFError
from alphamf.evaluation.score import pesq, sdr, si_sdr, stoi
from alphamf.inference.samplers.registry import SAMPLERS
from alphamf.inference.schedule import Polynomial
from alphamf.learnt.dictionary import Dictionary
from alphamf.tools import pool
from alphamf.training.dictionary.api import train
from benchmarks.noizeus_corpus import Clip, corpus
from benchmarks.report import Row, caption, markdown, options_of, write_csv, write_section

REPOSITORY = Path(__file__).parents[1]
PACKAGES = ("alphamf", "numpy", "scipy", "pesq", "pystoi")
COLUMNS = ("configuration", "SI-SDR dB", "SDR dB", "PESQ", "ESTOI", "CPU s per s")
"""Headings that stay on the page."""

TUNED = tuple(HYPERPARAMETERS)

# The paper's step sizes. Its PSGLD takes the mean gradient over 256 x 140 cells, which `scale`
# turns the sum into.
PRINTED: dict[str, dict[str, Any]] = {
    "sgld": {"step_size": Polynomial(1e-6)},
    "psgld": {
        "step_size": Polynomial(2e-5),
        "decay": 0.9,
        "damping": 1e-3,
        "scale": 256 * 140,
    },
    "hamcmc": {"step_size": Polynomial(1e-8), "memory": 5, "gamma": 0.01, "trust": 1000.0},
}
for name, hyperparameters in PRINTED.items():
    SAMPLERS[f"printed-{name}"] = SAMPLERS[name]
    HYPERPARAMETERS[f"printed-{name}"] = hyperparameters


class Own(NamedTuple):
    """A dictionary to be trained on the corpus.

    Attributes
    ----------
    rank, alpha, context
        As in `alphamf.train`.
    """

    rank: int
    alpha: float
    context: int


OWN = Own(40, 1.0, 3)


@dataclass(frozen=True)
class Config:
    """Settings and dictionary for a clip; without settings it stays as it is."""

    settings: Settings | None = None
    model: Own | str = OWN


def _configs() -> dict[str, Config]:
    configs = {"noisy": Config()}
    for name, settings in PRESETS.items():
        configs[f"{name}-own"] = Config(settings)
        configs[f"{name}-shipped"] = Config(settings, "auto")
    for name in TUNED:
        configs[f"sampler-{name}"] = Config(replace(PRESETS["plain"], sampler=name))
    frames = Own(100, 1.2, 1)
    for name in PRINTED:
        printed = replace(PRESETS["paper"], sampler=f"printed-{name}")
        configs[f"printed-{name}"] = Config(printed, frames)
        configs[f"tuned-{name}"] = Config(replace(printed, sampler=name), frames)
    return configs


CONFIGS = _configs()


class Task(NamedTuple):
    """One clip to denoise and score.

    Attributes
    ----------
    config
        Name of the configuration.
    clip
        Its files.
    model
        Dictionary.
    seed
        Of the chain.
    """

    config: str
    clip: Clip
    model: Dictionary | str | None
    seed: int


def _train(job: tuple[Own, list[Path], int]) -> Dictionary:
    own, paths, seed = job
    return train(paths, rate=8000, rank=own.rank, alpha=own.alpha, context=own.context, seed=seed)


def _score(task: Task) -> Row:
    """Denoise and score one clip; the time is that of denoising alone, in CPU seconds."""
    clip, settings = task.clip, CONFIGS[task.config].settings
    (reference, rate), (noisy, _) = read(clip.clean), read(clip.noisy)
    clean, mixture = reference[:, 0], noisy[:, 0]
    row = Row(
        config=task.config,
        snr=clip.snr,
        clip=f"{clip.clean.stem} {clip.noisy.parent.name}",
        seconds=len(mixture) / rate,
        si_sdr_before=si_sdr(clean, mixture),
    )
    output = mixture
    try:
        if settings is not None and task.model is not None:
            begun = time.process_time()
            output = denoise(mixture, rate, settings, model=task.model, seed=task.seed).audio
            row = replace(row, cpu=time.process_time() - begun)
        return replace(
            row,
            si_sdr=si_sdr(clean, output),
            sdr=sdr(clean, output),
            pesq=pesq(clean, output, rate),
            estoi=stoi(clean, output, rate, extended=True),
        )
    except AlphaMFError as error:
        return replace(row, error=str(error))


def run(
    names: list[str], clips: list[Clip], training: list[list[Path]], jobs: int, seed: int
) -> list[Row]:
    """Train the dictionaries, then score every clip under every configuration, in order.

    Parameters
    ----------
    names
        Of configurations.
    clips, training
        From `corpus`.
    jobs
        Number of processes.
    seed
        Of dictionaries and chains.
    """
    console = Console(stderr=True)
    wanted = [CONFIGS[name].model for name in names if CONFIGS[name].settings is not None]
    dictionaries = {
        (model, fold): (model, paths, seed)
        for model in wanted
        if isinstance(model, Own)
        for fold, paths in enumerate(training)
    }
    trained = pool.results(_train, list(dictionaries.values()), workers=jobs)
    bar = track(trained, "Train", len(dictionaries), console=console)
    models = dict(zip(dictionaries, bar, strict=True))
    tasks = []
    for name in names:
        model = CONFIGS[name].model
        for clip in clips:
            use = models.get((model, clip.fold)) if isinstance(model, Own) else model
            tasks.append(Task(name, clip, use, seed))
    rows = pool.results(_score, tasks, workers=jobs)
    return list(track(rows, "Denoise", len(tasks), console=console))


def _arguments() -> argparse.Namespace:
    parser = options_of("benchmarks.noizeus", __doc__)
    parser.add_argument(
        "--configs", nargs="+", default=["*"], metavar="NAME", help="configurations (default: all)"
    )
    parser.add_argument("--snr", default="5", help="levels in dB: 0,5,10,15 or some (default 5)")
    parser.add_argument(
        "--cross-validate", action="store_true", help="use the train sentences, in 4 folds"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="only N clips of each level")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (default 2)")
    parser.add_argument(
        "--seed", type=int, default=0, help="of dictionaries and chains (default 0)"
    )
    parser.add_argument("--table", metavar="NAME", help="section of docs/samplers.md to replace")
    parser.add_argument("--output", metavar="FILE.csv", help="a row per clip")
    arguments = parser.parse_args()
    arguments.names = [
        name for name in CONFIGS if any(fnmatch(name, wanted) for wanted in arguments.configs)
    ]
    if not arguments.names:
        parser.error(f"no configuration is named so; there are: {', '.join(CONFIGS)}")
    if not set(arguments.snr.split(",")) <= {"0", "5", "10", "15"}:
        parser.error(f"--snr takes some of 0,5,10,15, not {arguments.snr}")
    return arguments


def main() -> None:
    """Run the command line, and write or print its table."""
    asked = _arguments()
    levels = [int(level) for level in asked.snr.split(",")]
    clips, training = corpus(levels, asked.cross_validate, asked.limit)
    rows = run(asked.names, clips, training, asked.jobs, asked.seed)
    made = caption("benchmarks.noizeus", sys.argv[1:], PACKAGES)
    text = f"{markdown(rows)}\n\nMean ± standard error over the clips, seed {asked.seed}. {made}"
    if asked.output:
        write_csv(Path(asked.output), rows)
    if asked.table:
        name, docs = f"noizeus:{asked.table}", REPOSITORY / "docs"
        write_section(docs / "samplers.md", name, text, columns=COLUMNS, folder=docs / "benchmarks")
    print(text)


if __name__ == "__main__":
    main()
