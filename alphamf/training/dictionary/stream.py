"""Streamed speech: a target whose minibatch is an excerpt of one voice."""

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
from alphamf.training.dictionary.settings import HOP_SECONDS, TrainingSettings
from alphamf.training.dictionary.speech import Excerpts, spectrum
from alphamf.training.dictionary.voices import Voice

INNER_STEPS = 20
"""Steps of EM that fit H and Phi of an excerpt."""

INNER_KEPT = 5
"""The last of these, whose gradients are averaged: several draws of Phi for one of H."""

LONGEST = 10.0
"""Seconds of speech that are fitted at a time: longer excerpts are cut, which bounds the memory."""

ATTEMPTS = 3
"""Number of random positions to try for an excerpt before using the first speech of a file."""

DECAY = 0.99
"""Decay per step of the moving average of the objective."""

USED, UNUSABLE = 1, 2
"""States of a file."""


class BasisGradient(NamedTuple):
    """Gradient of the potential in W, normalised to one column of speech."""

    # plus, minus: its positive and negative part, shape (I K,).
    plus: Array
    minus: Array
    exponent: float  # Exponent of the multiplicative update, alpha / (alpha + 2)

    def parts(self, theta: Array) -> Parts:
        """Return the gradient, at the theta for which it was drawn, in two positive parts."""
        one = np.ones(1, theta.dtype)
        return Parts(self.plus, self.minus, one, self.exponent * one)

    def grad(self, theta: Array) -> Array:
        """Return the gradient at the theta for which it was drawn."""
        return self.plus - self.minus


class VoiceStream:
    """Speech of many voices, as a target whose theta is W, of shape (I K,).

    A minibatch is an excerpt of one voice, from a random place in one of its files, at most
    `TrainingSettings.seconds` long. Every pass takes each voice once, in a new random order; all
    excerpts weigh the same.
    """

    voices: list[Voice]  # At least one
    settings: TrainingSettings  # Settings of the run
    # Called with one sentence for each file that cannot be used. None: the first one raises.
    skipped: Callable[[str], None] | None

    positive = True

    def __init__(
        self,
        voices: Sequence[Voice],
        settings: TrainingSettings,
        skipped: Callable[[str], None] | None = None,
    ) -> None:
        self.voices, self.settings, self.skipped = list(voices), settings, skipped
        self.rows: int = settings.context * settings.frame.bins
        self.size: int = self.rows * settings.rank
        files = [file for voice in self.voices for file in voice.files]
        self._number = {file: number for number, file in enumerate(files)}
        self._excerpts = Excerpts(settings.rate, settings.frame, settings.seconds)
        self.latents: dict[str, Array] = {
            "batches": np.zeros(1, np.int64),
            "seconds": np.zeros(1),
            "objective": np.full(1, np.nan),
            "files": np.zeros(len(files), np.int8),
        }
        self._pass = -1
        self._order = np.zeros(0, np.int64)

    def start(self, rng: Any, chains: tuple[int, ...] = ()) -> Array:
        """Draw a W whose columns sum to one."""
        basis = rng.random((*chains, self.rows, self.settings.rank), dtype=np.float32)
        basis += np.float32(0.1)
        basis /= basis.sum(-2, keepdims=True)
        theta: Array = basis.reshape(*chains, self.size)
        return theta

    def draw(self, rng: Any, theta: Array) -> BasisGradient:
        """Read an excerpt of the next voice with speech, fit H, and return the gradient in W."""
        # The rest of a pass and the next one include every voice.
        for _ in range(2 * len(self.voices)):
            power = self._excerpt(self._next_voice(), rng)
            if power is not None:
                return self._summary(stack(power, self.settings.context), theta, rng)
        given = (
            "none of the files can be used" if self.unusable_files else "all the files are silent"
        )
        raise AlphaMFError(f"there is no speech to train on; {given}")

    @property
    def objective(self) -> float:
        """Mean log density of a cell over about the last 100 minibatches; NaN before the first."""
        return float(self.latents["objective"][0])

    @property
    def seconds(self) -> float:
        """Total length of all excerpts so far, in seconds."""
        return float(self.latents["seconds"][0])

    @property
    def used_files(self) -> int:
        """Number of files that were used so far."""
        return int(np.count_nonzero(self.latents["files"] == USED))

    @property
    def unusable_files(self) -> int:
        """Number of files that could not be used."""
        return int(np.count_nonzero(self.latents["files"] == UNUSABLE))

    def _next_voice(self) -> Voice:
        """Return the voice of the next minibatch."""
        count = int(self.latents["batches"][0])
        self.latents["batches"] += 1
        number, place = divmod(count, len(self.voices))
        if number != self._pass:
            self._order = generator(self.settings.seed, Key.VOICE_ORDER, number).permutation(
                len(self.voices)
            )
            self._pass = number
        return self.voices[int(self._order[place])]

    def _excerpt(self, voice: Voice, rng: Any) -> Floats | None:
        """Return the power spectrum of an excerpt of a voice; None if no speech is found."""
        for attempt in range(ATTEMPTS + 1):
            # Drawn whatever becomes of the file, so that a resumed run draws the same.
            file, place = voice.files[rng.integers(len(voice.files))], rng.random()
            number = self._number[file]
            if self.latents["files"][number] == UNUSABLE:
                continue
            try:
                if attempt < ATTEMPTS:
                    sound = self._excerpts.read(file, place)
                else:
                    sound = self._excerpts.read_first(file)
            except AlphaMFError as error:
                if self.skipped is None:
                    raise
                self.skipped(str(error))
                self.latents["files"][number] = UNUSABLE
                continue
            power = spectrum(sound, self.settings.frame)
            if power is not None:
                self.latents["files"][number] = USED
                self.latents["seconds"] += len(sound) / self.settings.rate
                return power
        return None

    def _summary(self, power: Floats, theta: Array, rng: Any) -> BasisGradient:
        """Return dU/dW, averaged over the last steps of H and the columns of `power`."""
        alpha, columns = self.settings.alpha, power.shape[1]
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
        before, density = self.objective, density / power.size
        self.latents["objective"][0] = (
            DECAY * before + (1 - DECAY) * density if np.isfinite(before) else density
        )
        weight = 1 / (INNER_KEPT * columns)
        return BasisGradient(
            weight * plus.reshape(-1), weight * minus.reshape(-1), alpha / (alpha + 2)
        )
