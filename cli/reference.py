"""Scores against a clean reference, for ``alphamf denoise --reference``."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np

from alphamf.audio.live_input import Recording
from alphamf.audio.reader import read
from alphamf.audio.stft import Frame
from alphamf.batch.observers import Observers
from alphamf.denoising.segments import Segment
from alphamf.errors import AlphaMFError
from alphamf.scores import score
from alphamf.tools.arrays import Floats
from alphamf.tools.files import printable_name


class ScoringObservers:
    """`Observers` that also measure SI-SDR, SDR and STOI before and after, means over channels."""

    def __init__(
        self,
        reference: str,
        reader: Recording,
        frame: Frame,
        stack: ExitStack,
        mode: int = 0o666,
        **outputs: Any,
    ) -> None:
        self._clean, self._rate = read(reference)
        found = self._rate, *self._clean.shape
        needed = reader.rate, reader.frames, reader.channels
        if found != needed:
            raise AlphaMFError(
                f"`reference` {printable_name(reference)} must match {reader.name}: (rate, "
                f"samples, channels) is {found}, not {needed}"
            )
        self._outputs = Observers(reader, frame, stack, mode, **outputs)
        self._before: list[Floats] = []
        self._after: list[Floats] = []

    def watch(self, blocks: Iterable[Floats]) -> Iterator[Floats]:
        """Yield the input, blocks of shape (samples, channels), unchanged, and store it."""
        for block in self._outputs.watch(blocks):
            self._before.append(block)
            yield block

    def add(self, segment: Segment) -> None:
        """Pass a segment on to the other outputs, and store its sound."""
        self._outputs.add(segment)
        self._after.append(segment.audio)

    def finish(self) -> dict[str, dict[str, float | None]]:
        """Finish the other outputs; return scores, None if undefined (silence, a short clip)."""
        self._outputs.finish()
        measured = {"before": self._before, "after": self._after}
        return {name: self._measure(np.concatenate(parts)) for name, parts in measured.items()}

    def _measure(self, estimate: Floats) -> dict[str, float | None]:
        def mean(measure: Any, *arguments: Any) -> float | None:
            pairs = zip(self._clean.T, estimate.T, strict=True)
            try:
                return float(np.mean([measure(*pair, *arguments) for pair in pairs]))
            except AlphaMFError:
                return None

        return {
            "si_sdr": mean(score.si_sdr),
            "sdr": mean(score.sdr),
            "stoi": mean(score.stoi, self._rate),
        }
