"""Settings of a training run."""

from __future__ import annotations

from dataclasses import dataclass

from alphamf.audio.stft import Frame
from alphamf.denoising.settings import kernel
from alphamf.errors import AlphaMFError
from alphamf.factorization.stable import ALPHAS
from alphamf.inference.samplers.registry import SamplerName
from alphamf.tools.arguments import flag, real_number, replace_numbers, whole_number
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

STEPS = 200
"""Default number of steps with all speech in memory."""


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of a training run."""

    # rate, rank, alpha, context, sampler, steps, keep, seconds, voices, stream, seed: as in
    # `alphamf.training.dictionary.api.train`.
    rate: int = 8000
    rank: int = 60
    alpha: float = 1.0
    context: int = 3
    sampler: SamplerName = "em"
    steps: int | None = None
    keep: int | None = None
    seconds: float = 5.0
    voices: VoiceRule = "file"
    stream: bool | None = None
    seed: int = 0

    @property
    def frame(self) -> Frame:
        """Window and hop in samples."""
        hop = round(HOP_SECONDS * self.rate)
        return Frame(OVERLAP * hop, hop)

    def count_averaged(self, steps: int) -> int:
        """Return how many of `steps` steps at the end are averaged."""
        keep = max(1, steps // 3) if self.keep is None else self.keep
        if not 1 <= keep <= steps:
            raise AlphaMFError(f"keep must be from 1 to steps = {steps}, not {keep}")
        return keep

    def __post_init__(self) -> None:
        numbers: dict[str, float] = {
            "rate": whole_number("rate", self.rate, *RATES, unit=" Hz"),
            "rank": whole_number("rank", self.rank, 1, MOST_RANK),
            "alpha": real_number("alpha", self.alpha, *ALPHAS),
            "context": whole_number("context", self.context, 1, MOST_CONTEXT),
            "seconds": check_seconds(self.seconds),
            "seed": whole_number("seed", self.seed, 0),
        }
        for name in ("steps", "keep"):
            if getattr(self, name) is not None:
                numbers[name] = whole_number(name, getattr(self, name), 1)
        kernel(self.sampler)
        check_rule(self.voices)
        if self.stream is not None:
            flag("stream", self.stream)
        replace_numbers(self, numbers)
        if self.stream and self.sampler != "em":
            raise AlphaMFError(
                f"streamed training supports only the sampler em; {self.sampler} needs all "
                "speech in memory"
            )


def check_seconds(seconds: float) -> float:
    """Return seconds of a voice; less than a window and more than a day are refused."""
    least = OVERLAP * HOP_SECONDS
    return real_number("seconds", seconds, least, MOST_SECONDS)
