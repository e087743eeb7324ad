r"""Learn a refiner: make mixtures of speech and noise, then learn a network from them.

For example a refiner for 8 kHz, from LibriSpeech and three of the five folds of ESC-10::

    python -m alphamf.training.refiner.train LIBRISPEECH --noise 'ESC-10/*/[1-3]-*.flac' \
        --model speech-8k -o models/refiner-8k.npz --mixtures DIR

With ``--second`` it learns to look again, in short windows, at what a refiner made::

    python -m alphamf.training.refiner.train LIBRISPEECH --noise 'ESC-10/*/[1-3]-*.flac' \
        --model speech-16k --second refiner-16k -o models/second-stage-16k.npz --mixtures DIR

Mixtures stay in DIR, a hundred in a file, and files that are there are not made again, so that a
run that was stopped goes on. Needs JAX and optax: pip install 'alphamf[learn]'.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from alphamf.audio.stft import Frame
from alphamf.errors import AlphaMFError
from alphamf.learnt import second_stage
from alphamf.learnt.dictionary import Dictionary, load
from alphamf.learnt.network_file import find
from alphamf.learnt.refiner import Refiner
from alphamf.tools.files import shown
from alphamf.training.refiner import shards
from alphamf.training.refiner.shards import Recipe, Shard

if TYPE_CHECKING:
    from alphamf.training.refiner.losses import Losses
    from alphamf.training.refiner.optimise import Report

SHORTEST = 0.2
"""The least that a clip must last, in seconds."""


def check_installed() -> None:
    """Say what is missing before an hour of making mixtures, and not after.

    Raises
    ------
    AlphaMFError
        JAX or optax is not installed.
    """
    try:
        import jax  # noqa: F401
        import optax  # noqa: F401
    except ImportError as error:
        raise AlphaMFError(
            "learning a refiner needs JAX and optax: pip install 'alphamf[learn]'"
        ) from error


def prepare(recipe: Recipe, folder: Path, clips: int, jobs: int) -> list[Shard]:
    """Make the mixtures that are not there, in `jobs` processes; return where all of them are.

    Raises
    ------
    AlphaMFError
        A file holds other mixtures, or cannot be made.
    """
    planned = shards.plan(recipe, folder, clips)
    left = shards.missing(planned)
    if jobs == 1 or len(left) <= 1:
        for shard in left:
            shards.make(shard)
            _tell(shard)
        return planned
    with ProcessPoolExecutor(min(jobs, len(left)), multiprocessing.get_context("spawn")) as pool:
        futures = {pool.submit(shards.make, shard): shard for shard in left}
        try:
            for future in as_completed(futures):
                future.result()
                _tell(futures[future])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return planned


def _tell(shard: Shard) -> None:
    print(f"{shown(shard.path)}: {shard.clips} mixtures", flush=True)


def teach(
    planned: list[Shard],
    dictionary: Dictionary,
    output: Path,
    *,
    epochs: float,
    seed: int,
    start: Refiner | None = None,
) -> None:
    """Learn the network, say how it goes on standard output, and write it at each look at it.

    Raises
    ------
    AlphaMFError
        There is too little to learn from, or `output` cannot be written.
    """
    from alphamf.training.refiner import optimise

    began = time.perf_counter()
    clips = shards.Clips(planned)
    for news in optimise.learn(
        clips,
        dictionary.frame,
        dictionary.rate,
        epochs=epochs,
        seed=seed,
        start=start.parameters if start else None,
    ):
        print(_line(news, time.perf_counter() - began), flush=True)
        if not np.isfinite(news.learnt).all():
            raise AlphaMFError(f"learning diverged before step {news.step}")
        if news.held_out is not None:
            parameters = {name: np.asarray(value) for name, value in news.parameters.items()}
            about = _about(planned, epochs, seed, news) | {"start": start and start.name}
            frame = optimise.task(clips[0], dictionary.frame, dictionary.rate).frame
            Refiner(parameters, dictionary.rate, frame, about=about).save(output)


def _line(news: Report, seconds: float) -> str:
    text = f"step {news.step} of {news.steps}, {seconds:.0f} s: {_shown(news.learnt)}"
    return text if news.held_out is None else f"{text}; held out: {_shown(news.held_out)}"


def _shown(found: Losses) -> str:
    distortion = -10 / np.log(10) * found.distortion
    rest = f"{found.compression:.4f}, {1 - found.intelligibility:.3f}, {found.likelihood:.3f}"
    return f"{distortion:.2f} dB, {rest}"


def _about(planned: list[Shard], epochs: float, seed: int, news: Report) -> dict[str, Any]:
    """Return what the refiner says of itself."""
    recipe = planned[0].recipe
    return {
        "software": f"alphamf {version('alphamf')}",
        "model": recipe.model,
        "first": recipe.first or None,
        "clips": sum(shard.clips for shard in planned),
        "seconds": recipe.seconds,
        "epochs": epochs,
        "seed": seed,
        "step": news.step,
        "held_out": news.held_out._asdict() if news.held_out else None,
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m alphamf.training.refiner.train",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    many = "files, folders, or patterns in quotes"
    parser.add_argument("speech", nargs="+", metavar="SPEECH", help=f"clean recordings: {many}")
    parser.add_argument(
        "--noise", nargs="+", required=True, metavar="SOUND", help=f"sounds to mix in: {many}"
    )
    parser.add_argument("--model", default="speech-8k", help="dictionary (default speech-8k)")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE.npz")
    parser.add_argument(
        "--mixtures", type=Path, required=True, metavar="DIR", help="folder that keeps the mixtures"
    )
    parser.add_argument(
        "--second", default="", metavar="REFINER", help="look again at what this refiner made"
    )
    parser.add_argument("--start", type=Path, metavar="FILE.npz", help="a refiner to go on from")
    parser.add_argument("--clips", type=int, default=3000, metavar="N", help="(default 3000)")
    parser.add_argument("--seconds", type=float, default=2.6, help="of a clip (default 2.6)")
    parser.add_argument("--epochs", type=float, default=12, metavar="N", help="(default 12)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (default 2)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="(default 1)")
    asked = parser.parse_args()
    for name, least in (
        ("clips", 1),
        ("seconds", SHORTEST),
        ("epochs", 0),
        ("jobs", 1),
        ("seed", 0),
    ):
        if not getattr(asked, name) >= least:
            parser.error(f"--{name} must be at least {least}, not {getattr(asked, name)}")
    if not asked.output.parent.is_dir():  # said now, and not after hours
        parser.error(f"there is no folder {shown(asked.output.parent)} for --output")
    return asked


def _fitting(path: Path, rate: int, frame: Frame) -> Refiner:
    refiner = Refiner.load(path)
    if (refiner.rate, refiner.frame) != (rate, frame):
        raise AlphaMFError(f"{shown(path)} is for another rate or window than what is asked for")
    return refiner


def main() -> None:
    """Do what the command line asks for."""
    asked = _arguments()
    try:
        check_installed()
        dictionary = load(asked.model)
        recipe = Recipe(
            tuple(asked.speech),
            tuple(asked.noise),
            asked.model,
            asked.seconds,
            asked.seed,
            asked.second,
        )
        frame = dictionary.frame
        if asked.second:
            _fitting(find(asked.second), dictionary.rate, frame)
            frame = second_stage.frame(dictionary.rate)
        start = _fitting(asked.start, dictionary.rate, frame) if asked.start else None
        planned = prepare(recipe, asked.mixtures, asked.clips, asked.jobs)
        teach(planned, dictionary, asked.output, epochs=asked.epochs, seed=asked.seed, start=start)
    except AlphaMFError as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()
