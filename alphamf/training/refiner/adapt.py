"""Fine-tune a shipped refiner on the user's own voices and noises."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from alphamf.errors import AlphaMFError
from alphamf.learnt.dictionary import folder as models
from alphamf.learnt.dictionary import load as load_dictionary
from alphamf.learnt.network_file import find
from alphamf.learnt.refiner import Refiner
from alphamf.tools import machine
from alphamf.tools.files import temporary_folder
from alphamf.training.refiner import config_file, shards
from alphamf.training.refiner.config import Config, Data
from alphamf.training.refiner.run import NETWORK, Run, check_installed, prepare_clips, train
from alphamf.training.refiner.scores import Scores

KINDS = {"recorded": 0.8, "events": 0.1, "babble": 0.1}
"""Probabilities of the kinds of noise, which are mostly the user's own recordings."""

STEP_SIZE = 2e-4
"""Step size of AdamW after the warm-up, which is lower than for the shipped refiners."""

MIXING, FITTING = 0.35, 0.45
"""Fractions of the planned time for mixtures and for steps; the rest is for reading and scoring."""

DEV_CLIPS, MOST_CLIPS, LEAST_STEPS = 40, 20000, 20
"""Number of mixtures for scores, maximum number of those for training; minimum number of steps."""

TIMED = 4
"""Number of trial steps, all but the first of which are timed to plan the number of steps."""

READ, MEASURED, MIXED = 0.05, 0.15, 0.5
"""Fractions of the work that are reported as done once the recordings are read, once a step is
timed, and once all mixtures are made."""

TIE = 1e-3
"""Largest change of a score that counts as none: scores of the same mixtures differ by as much."""

TellStage = Callable[[str, float], None]
"""A function that receives what is being done, as a sentence, and the fraction of work done."""


class FineTuningResult(NamedTuple):
    """A fine-tuned refiner, with scores from before and after."""

    refiner: Refiner  # The fine-tuned refiner
    # before, after: scores of the shipped refiner and of the fine-tuned one on mixtures of held-out
    # recordings.
    before: Scores
    after: Scores
    # clips, steps: numbers of mixtures and of steps of the training.
    clips: int
    steps: int

    @property
    def worse(self) -> list[str]:
        """Names of scores that fell by over `TIE`; of all finite ones if none rose by over that."""
        pairs = zip(Scores._fields, self.before, self.after, strict=True)
        changes = {name: after - before for name, before, after in pairs if math.isfinite(after)}
        fell = [name for name, change in changes.items() if change < -TIE]
        rose = any(change > TIE for change in changes.values())
        return fell if rose else list(changes)


class FineTuningSettings(NamedTuple):
    """Settings of a fine-tuning run."""

    # clean, noise: files, folders or patterns of clean speech and of noise.
    clean: Sequence[str]
    noise: Sequence[str]
    rate: int  # Rate of the shipped refiner in Hz, 8000 or 16000
    minutes: float  # Planned duration of the run, which a slow machine may exceed
    jobs: int  # Number of processes, and of threads
    seed: int  # The same seed, jobs, and numbers of clips and steps make the same network


class _Stages:
    """Progress of a run: counts the lines of its log, and reports the fraction of work done."""

    def __init__(self, tell: TellStage) -> None:
        self._tell = tell
        self._sentence, self._start, self._end, self._lines = "", 0.0, 0.0, 1
        self._count = 0

    def begin(self, sentence: str, start: float, end: float, lines: int = 1) -> None:
        """Begin a stage of `lines` log lines; the fraction done rises from `start` to `end`."""
        self._sentence, self._start, self._end, self._lines = sentence, start, end, lines
        self._count = 0
        self._tell(sentence, start)

    def line(self, text: str) -> None:
        """Count a line of the log, whatever its text, and report the fraction of work done."""
        self._count += 1
        part = min(1.0, self._count / self._lines)
        self._tell(self._sentence, self._start + (self._end - self._start) * part)


def adapt(wish: FineTuningSettings, tell: TellStage) -> FineTuningResult:
    """Fine-tune the shipped refiner on the user's recordings, and score it before and after."""
    check_installed()
    asked, stages = _configuration(wish), _Stages(tell)
    with temporary_folder("alphamf-adapt-") as place:
        run = Run(asked, place / "run", place / "mixtures", wish.jobs, stages.line)
        # Decoding the recordings, which may last for hours, is no part of a mixture's time.
        stages.begin("Reading the recordings", 0.0, READ)
        one = replace(asked, mixtures=replace(asked.mixtures, dev_clips=1))
        prepare_clips(run._replace(config=one), 0)
        stages.begin("Scoring the network as it is", READ, MEASURED, 4)
        began = time.monotonic()
        prepare_clips(run, 0)
        clip = (time.monotonic() - began) / DEV_CLIPS
        clips = int(60 * wish.minutes * MIXING / clip)
        batch = asked.schedule.batch
        clips = min(max(clips, TIMED * batch), MOST_CLIPS)
        run = run._replace(config=_sized(asked, clips, LEAST_STEPS))
        before, step = _measured(run)
        steps = max(int(60 * wish.minutes * FITTING / step), LEAST_STEPS)
        run = run._replace(config=_sized(asked, clips, steps))
        files = -(-min(clips, steps * batch) // shards.SIZE)
        stages.begin(f"Making {clips} mixtures", MEASURED, MIXED, files)
        prepare_clips(run, steps)
        lines = -(-steps // run.config.schedule.report_every)
        stages.begin(f"Training for {steps} steps", MIXED, 1.0, lines)
        last = train(run)[-1]
        refiner = Refiner.load(run.folder / NETWORK)
        parameters = {name: value.copy() for name, value in refiner.parameters.items()}
        refiner = replace(refiner, parameters=parameters, origin=None)
    after = Scores(*(last[f"dev {name}"] for name in Scores._fields))
    return FineTuningResult(refiner, before, after, clips, steps)


def _configuration(wish: FineTuningSettings) -> Config:
    """Return the shipped refiner's configuration, changed for training on the user's recordings."""
    name = f"refiner-{wish.rate // 1000}k"
    path = find(name)
    if not path.is_file():
        raise AlphaMFError(
            f"there is no shipped refiner for {wish.rate} Hz; the rate must be 8000 or 16000"
        )
    shipped = Refiner.load(path)
    base = config_file.load(models() / f"{name}.toml")
    mixtures = replace(
        base.mixtures,
        dev_clips=DEV_CLIPS,
        seed=wish.seed,
        rooms=0.0,
        telephone=0.0,
        band=0.0,
        codec=0.0,
        kinds=KINDS,
    )
    # The result is the trained network (moved=1), with separate weights per bin (bands=0).
    network = replace(base.network, bands=0, exponent=shipped.exponent, start=name, moved=1.0)
    schedule = replace(base.schedule, step_size=STEP_SIZE, muon=0.0, warm_up=20, seed=wish.seed)
    return Config(
        network, Data(tuple(wish.clean), tuple(wish.noise)), mixtures, base.losses, schedule
    )


def _sized(asked: Config, clips: int, steps: int) -> Config:
    schedule = replace(
        asked.schedule, steps=steps, report_every=max(1, min(50, steps // 4)), score_every=steps
    )
    return replace(asked, mixtures=replace(asked.mixtures, clips=clips), schedule=schedule)


def _measured(run: Run) -> tuple[Scores, float]:
    """Return the scores of the shipped refiner, and the duration of a step in s."""
    import torch

    from alphamf.training.refiner.optimise import Fit

    torch.set_num_threads(run.jobs)
    shipped = Refiner.load(find(run.config.network.start))
    fit = Fit(run.config, load_dictionary(run.config.network.model), shipped.parameters)
    clips, dev = prepare_clips(run, TIMED)
    _, before = fit.validate(dev)
    assert before is not None, "a refiner's clips have sound"
    with machine.keep_freed_memory():
        fit.advance(clips)  # the first step is slower
        began = time.monotonic()
        for _ in range(TIMED - 1):
            fit.advance(clips)
        return before, (time.monotonic() - began) / (TIMED - 1)
