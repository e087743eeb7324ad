"""Settings of a training run."""

from __future__ import annotations

from dataclasses import dataclass

from alphamf.audio.stft import Frame
from alphamf.denoising.settings import kernel
from alphamf.errors import AlphaMFError
from alphamf.factorization.stable import ALPHAS
from alphamf.tools.arguments import real_number, replace_numbers, whole_number
from alphamf.training.dictionary.voices import VoiceRule, check_rule

HOP_SECONDS = 0.016
OVERLAP = 4
"""Ratio of window and hop: windows of 64 ms every 16 ms."""

RATES = (4000, 48000)
"""Lowest and highest sampling rate of a dictionary, in Hz."""

MOST_RANK = 10_000
"""Maximum number of spectra of a dictionary: 160 times the default."""

MOST_CONTEXT = 1000
"""Maximum number of frames stacked in a column: 16 s, 300 times the default."""

MOST_SECONDS = 24 * 3600
"""Maximum number of seconds that are taken of a voice: a day."""

MOST_CELLS = 125_000_000
"""Maximum number of cells of the speech's spectrogram. The model takes 40 bytes for each: 5 GB, 43
minutes of speech at 8 kHz and 21 at 16 kHz, with the default context."""


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of a training run: the arguments of `alphamf.training.dictionary.api.train`."""

    rate: int
    rank: int
    alpha: float
    context: int
    sampler: str
    steps: int
    keep: int | None
    seconds: float
    voices: VoiceRule
    seed: int

    @property
    def frame(self) -> Frame:
        """Window and hop in samples."""
        hop = round(HOP_SECONDS * self.rate)
        return Frame(OVERLAP * hop, hop)

    @property
    def averaged(self) -> int:
        """Number of steps at the end that are averaged."""
        return max(1, self.steps // 3) if self.keep is None else self.keep

    @property
    def most_seconds(self) -> float:
        """Maximum length of all speech together, in seconds."""
        return MOST_CELLS / (self.context * self.frame.bins) * HOP_SECONDS

    def __post_init__(self) -> None:
        numbers: dict[str, float] = {
            "rate": whole_number("rate", self.rate, *RATES, unit=" Hz"),
            "rank": whole_number("rank", self.rank, 1, MOST_RANK),
            "alpha": real_number("alpha", self.alpha, *ALPHAS),
            "context": whole_number("context", self.context, 1, MOST_CONTEXT),
            "steps": whole_number("steps", self.steps, 1),
            "seconds": check_seconds(self.seconds),
            "seed": whole_number("seed", self.seed, 0),
        }
        if self.keep is not None:
            numbers["keep"] = whole_number("keep", self.keep, 1)
        kernel(self.sampler)
        check_rule(self.voices)
        replace_numbers(self, numbers)
        if self.averaged > self.steps:
            raise AlphaMFError(f"keep must be from 1 to steps = {self.steps}, not {self.keep}")


def check_seconds(seconds: float) -> float:
    """Return seconds of a voice; less than a window and more than a day are refused."""
    return real_number("seconds", seconds, OVERLAP * HOP_SECONDS, MOST_SECONDS)
