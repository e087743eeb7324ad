"""Speech that streams by: a target that hears one voice at a time, and forgets it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.factorization.likelihood import log_density
from alphamf.factorization.stacking import stack
from alphamf.inference.protocols import Parts
from alphamf.inference.random import Key, generator
from alphamf.tools.arrays import Array, Floats
from alphamf.training.dictionary.activations import activate
from alphamf.training.dictionary.settings import HOP_SECONDS, Course
from alphamf.training.dictionary.speech import Stretches, spectrum
from alphamf.training.dictionary.voices import Voice

INNER_STEPS = 20
"""Steps of EM by which H and Phi of a stretch are fitted before W hears of it."""

INNER_KEPT = 5
"""Of these, the last ones, whose slopes are averaged: several draws of Phi for one of H."""

LONGEST = 10.0
"""Seconds of speech that are modelled at a time: longer stretches are cut, so that memory does not
grow with them."""

ATTEMPTS = 3
"""Places at which a voice is looked for, before the first speech of a file has to do."""

MEMORY = 0.99
"""Weight of the past, at each turn, in the objective that is shown."""

HEARD, UNUSABLE = 1, 2
"""What is known of a file."""


class Summary(NamedTuple):
    """What a voice says of W: the gradient's positive parts, for one column of speech."""

    plus: Array
    minus: Array
    exponent: float

    def parts(self, theta: Array) -> Parts:
        """Return the gradient at the theta that it was drawn at."""
        one = np.ones(1, theta.dtype)
        return Parts(self.plus, self.minus, one, self.exponent * one)

    def grad(self, theta: Array) -> Array:
        """Return the gradient at the theta that it was drawn at."""
        return self.plus - self.minus


class Stream:
    """Speech of many voices: a target whose theta is W, of shape (I K,).

    A minibatch is a voice: they take turns, in an order that is drawn anew for every pass. A turn
    is a stretch from a random place in one of the voice's files, at most `Course.seconds` long.
    All turns count the same, and so do the voices.

    Parameters
    ----------
    voices
        Whose speech; one at least.
    course
        The settings.
    skipped
        Called with one sentence for each file that cannot be used. None: the first one raises.

    Attributes
    ----------
    latents
        ``turns`` made, ``seconds`` of speech heard, ``objective``, and for each of the ``files``
        whether it was `HEARD` or is `UNUSABLE`: what a checkpoint needs to go on.
    """

    positive = True

    def __init__(
        self,
        voices: Sequence[Voice],
        course: Course,
        skipped: Callable[[str], None] | None = None,
    ) -> None:
        self.voices, self.course, self.skipped = list(voices), course, skipped
        self.rows = course.context * course.frame.bins
        self.size = self.rows * course.rank
        files = [file for voice in self.voices for file in voice.files]
        self._number = {file: number for number, file in enumerate(files)}
        self._stretches = Stretches(course.rate, course.frame, course.seconds)
        self.latents: dict[str, Array] = {
            "turns": np.zeros(1, np.int64),
            "seconds": np.zeros(1),
            "objective": np.full(1, np.nan),
            "files": np.zeros(len(files), np.int8),
        }
        self._pass = -1
        self._order = np.zeros(0, np.int64)

    def start(self, rng: Any, chains: tuple[int, ...] = ()) -> Array:
        """Draw a W whose columns sum to one."""
        basis = rng.random((*chains, self.rows, self.course.rank), dtype=np.float32)
        basis += np.float32(0.1)
        basis /= basis.sum(-2, keepdims=True)
        theta: Array = basis.reshape(*chains, self.size)
        return theta

    def draw(self, rng: Any, theta: Array) -> Summary:
        """Hear the next voice that says anything, fit H to it, and return what it says of W.

        Raises
        ------
        AlphaMFError
            No voice has any speech; or a file cannot be used, and nobody wants to hear of it.
        """
        # In any that many turns, the end of a pass and the next one, every voice has one.
        for _ in range(2 * len(self.voices)):
            power = self._listen(self._next(), rng)
            if power is not None:
                return self._summary(stack(power, self.course.context), theta, rng)
        given = "none of the files can be used" if self.unusable else "all the files are silent"
        raise AlphaMFError(f"there is no speech to learn from: {given}")

    @property
    def objective(self) -> float:
        """Mean log density of a cell, over the last hundred turns or so; NaN before the first."""
        return float(self.latents["objective"][0])

    @property
    def seconds(self) -> float:
        """Speech heard so far."""
        return float(self.latents["seconds"][0])

    @property
    def heard(self) -> int:
        """Number of files that were heard."""
        return int(np.count_nonzero(self.latents["files"] == HEARD))

    @property
    def unusable(self) -> int:
        """Number of files that turned out to be unusable."""
        return int(np.count_nonzero(self.latents["files"] == UNUSABLE))

    def _next(self) -> Voice:
        """Return the voice whose turn it is."""
        turn = int(self.latents["turns"][0])
        self.latents["turns"] += 1
        number, place = divmod(turn, len(self.voices))
        if number != self._pass:
            self._order = generator(self.course.seed, Key.VOICE_ORDER, number).permutation(
                len(self.voices)
            )
            self._pass = number
        return self.voices[int(self._order[place])]

    def _listen(self, voice: Voice, rng: Any) -> Floats | None:
        """Return the spectrum of a stretch of a voice's speech; None where none is found."""
        for attempt in range(ATTEMPTS + 1):
            # Drawn whatever becomes of the file, so that a resumed run draws the same.
            file, place = voice.files[rng.integers(len(voice.files))], rng.random()
            number = self._number[file]
            if self.latents["files"][number] == UNUSABLE:
                continue
            try:
                if attempt < ATTEMPTS:
                    sound = self._stretches.read(file, place)
                else:
                    sound = self._stretches.first(file)
            except AlphaMFError as error:
                if self.skipped is None:
                    raise
                self.skipped(str(error))
                self.latents["files"][number] = UNUSABLE
                continue
            power = spectrum(sound, self.course.frame)
            if power is not None:
                self.latents["files"][number] = HEARD
                self.latents["seconds"] += len(sound) / self.course.rate
                return power
        return None

    def _summary(self, power: Floats, theta: Array, rng: Any) -> Summary:
        """Return the mean slopes of U by W, over the last steps of H and the columns of `power`."""
        alpha, columns = self.course.alpha, power.shape[1]
        basis = theta.reshape(self.rows, -1)
        plus, minus = np.zeros(basis.shape), np.zeros(basis.shape)
        density = 0.0
        pieces = np.array_split(power, -(-columns // int(LONGEST / HOP_SECONDS)), axis=1)
        for piece in pieces:
            steps = activate(piece, basis, alpha, INNER_STEPS, rng)
            for step in islice(steps, INNER_STEPS - INNER_KEPT, None):
                plus += step.plus @ step.gains.T
                minus += step.minus @ step.gains.T
            density += float(log_density(piece, step.dispersion, alpha).sum(dtype=np.float64))
        known, density = self.objective, density / power.size
        self.latents["objective"][0] = (
            MEMORY * known + (1 - MEMORY) * density if np.isfinite(known) else density
        )
        weight = 1 / (INNER_KEPT * columns)
        return Summary(weight * plus.reshape(-1), weight * minus.reshape(-1), alpha / (alpha + 2))
