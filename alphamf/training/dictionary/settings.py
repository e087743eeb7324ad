"""Settings of a training run."""

from __future__ import annotations

from dataclasses import dataclass

from alphamf.audio.stft import Frame
from alphamf.denoising.settings import kernel
from alphamf.errors import AlphaMFError
from alphamf.factorization.stable import check_alpha
from alphamf.training.dictionary.voices import RULES

HOP_SECONDS = 0.016
OVERLAP = 4
"""Windows of 64 ms every 16 ms."""

RATES = (4000, 48000)
"""Lowest and highest sampling rate of a dictionary, in Hz."""

MOST_RANK = 10_000
"""Most spectra of a dictionary: 160 times the default."""

MOST_SECONDS = 24 * 3600
"""Most seconds that are taken of a voice: a day."""

STEPS = 200
"""Default number of steps with all speech in memory."""


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of a training run.

    Parameters
    ----------
    rate, rank, alpha, context, sampler, steps, keep, seconds, voices, stream, seed
        As in `alphamf.training.dictionary.api.train`.

    Raises
    ------
    AlphaMFError
        A value is out of range.
    """

    rate: int = 8000
    rank: int = 60
    alpha: float = 1.0
    context: int = 3
    sampler: str = "em"
    steps: int | None = None
    keep: int | None = None
    seconds: float = 5.0
    voices: str = "file"
    stream: bool | None = None
    seed: int = 0

    @property
    def frame(self) -> Frame:
        """Window and hop in samples."""
        hop = round(HOP_SECONDS * self.rate)
        return Frame(OVERLAP * hop, hop)

    def kept(self, steps: int) -> int:
        """Return how many of the last of `steps` steps are averaged.

        Raises
        ------
        AlphaMFError
            `keep` is larger than `steps`.
        """
        keep = max(1, steps // 3) if self.keep is None else self.keep
        if not 1 <= keep <= steps:
            raise AlphaMFError(f"keep must be from 1 to steps = {steps}, not {keep}")
        return keep

    def __post_init__(self) -> None:
        if not RATES[0] <= self.rate <= RATES[1]:
            raise AlphaMFError(f"rate must be from {RATES[0]} to {RATES[1]} Hz, not {self.rate}")
        if not 1 <= self.rank <= MOST_RANK:
            raise AlphaMFError(f"rank must be at least 1 and at most {MOST_RANK}, not {self.rank}")
        check_alpha(self.alpha)
        if self.context < 1:
            raise AlphaMFError(f"context must be at least 1, not {self.context}")
        kernel(self.sampler)
        if self.steps is not None and self.steps < 1:
            raise AlphaMFError(f"steps must be at least 1, not {self.steps}")
        if self.keep is not None and self.keep < 1:
            raise AlphaMFError(f"keep must be at least 1, not {self.keep}")
        check_seconds(self.seconds)
        if self.voices not in RULES:
            raise AlphaMFError(
                f"there is no rule {self.voices!r} for voices: it must be {', '.join(RULES)}"
            )
        if self.stream and self.sampler != "em":
            raise AlphaMFError(
                f"speech that streams by is for the sampler em: {self.sampler} needs all of it"
            )


def check_seconds(seconds: float) -> None:
    """Refuse to take less of a voice than a window, or more than a day."""
    least = OVERLAP * HOP_SECONDS
    if not least <= seconds <= MOST_SECONDS:
        raise AlphaMFError(f"seconds must be from {least} to {MOST_SECONDS}, not {seconds}")
