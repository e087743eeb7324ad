r"""Train a refiner: make mixtures of speech and noise, then fit a network to them.

For example a refiner for 8 kHz, from LibriSpeech and three of the five folds of ESC-10::

    python -m alphamf.training.refiner.train LIBRISPEECH --noise 'ESC-10/*/[1-3]-*.flac' \
        --model speech-8k -o models/refiner-8k.npz --mixtures DIR

With ``--second-stage`` it trains a second network, which works in short windows on the output of a
refiner::

    python -m alphamf.training.refiner.train LIBRISPEECH --noise 'ESC-10/*/[1-3]-*.flac' \
        --model speech-16k --second-stage refiner-16k -o models/second-stage-16k.npz --mixtures DIR

Mixtures stay in DIR, a hundred in a file, and existing files are not made again, so that a stopped
run resumes. Needs JAX and optax: pip install 'alphamf[learn]'.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from alphamf.audio.stft import Frame
from alphamf.errors import AlphaMFError
from alphamf.learnt import second_stage
from alphamf.learnt.dictionary import load
from alphamf.learnt.network_file import find
from alphamf.learnt.refiner import Refiner
from alphamf.tools.files import shown
from alphamf.training.refiner.fit import make_clips, train
from alphamf.training.refiner.shards import Recipe

SHORTEST = 0.2
"""The least that a clip must last, in seconds."""


def check_installed() -> None:
    """Check that the optional dependencies are installed, before any mixture is made.

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
            "training a refiner needs JAX and optax: pip install 'alphamf[learn]'"
        ) from error


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
        "--second-stage",
        default="",
        metavar="REFINER",
        help="train a second stage, on the output of this refiner",
    )
    parser.add_argument("--start", type=Path, metavar="FILE.npz", help="a network to go on from")
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
    if not asked.output.parent.is_dir():  # before hours of work
        parser.error(f"there is no folder {shown(asked.output.parent)} for --output")
    return asked


def _fitting(path: Path, rate: int, frame: Frame) -> Refiner:
    refiner = Refiner.load(path)
    if (refiner.rate, refiner.frame) != (rate, frame):
        raise AlphaMFError(
            f"{shown(path)} is for another rate or window than the one to be trained"
        )
    return refiner


def main() -> None:
    """Run the command line."""
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
            asked.second_stage,
        )
        frame = dictionary.frame
        if asked.second_stage:
            _fitting(find(asked.second_stage), dictionary.rate, frame)
            frame = second_stage.frame(dictionary.rate)
        start = _fitting(asked.start, dictionary.rate, frame) if asked.start else None
        planned = make_clips(recipe, asked.mixtures, asked.clips, asked.jobs)
        train(planned, dictionary, asked.output, epochs=asked.epochs, seed=asked.seed, start=start)
    except AlphaMFError as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()
