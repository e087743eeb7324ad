"""Normalize a recording to a target loudness: measure it as a whole, then write it."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack

import numpy as np

from alphamf.audio.loudness import (
    amplified,
    amplitude_to_decibels,
    check,
    measure,
    normalizing_gain,
    parts,
)
from alphamf.audio.writer import Writer
from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Floats
from alphamf.tools.files import reason, temporary_place


class Normalizer:
    """Accepts samples like a `Writer`, and writes them when the recording is complete.

    The samples are stored in a temporary file, with four bytes per sample.

    `rate`, `channels`: sampling rate in Hz and number of channels of the recording. `loudness`: in
    LUFS.
    """

    def __init__(
        self, writer: Writer, rate: int, channels: int, loudness: float, stack: ExitStack
    ) -> None:
        check(rate, channels)
        self._writer, self._rate, self._loudness = writer, rate, loudness
        self._shape = 0, channels
        try:
            self._file = stack.enter_context(tempfile.TemporaryFile(prefix="alphamf-"))
        except OSError as error:
            raise _failed(error) from error

    def write(self, block: Floats) -> None:
        """Add samples, shape (n, channels)."""
        try:
            self._file.write(np.ascontiguousarray(block, np.float32).data)
        except OSError as error:
            raise _failed(error) from error
        self._shape = self._shape[0] + len(block), self._shape[1]

    def finish(self) -> dict[str, float] | None:
        """Write all; return loudness before and after in LUFS, and the true peak in dB.

        A recording that is too short to be measured, or silent, is written unchanged, and the
        result is None.
        """
        try:
            self._file.flush()
        except OSError as error:
            raise _failed(error) from error
        audio: Floats = np.memmap(self._file, np.float32, "r", shape=self._shape)
        levels = measure(audio, self._rate)
        found = normalizing_gain(levels, self._loudness)
        if found is None:
            for _, block in parts(audio, 1):
                self._writer.write(block)
            return None
        peak = 0.0
        for block, highest in amplified(audio, levels, found):
            peak = max(peak, highest)
            self._writer.write(block)
        return {
            "before": found.before,
            "after": found.after,
            "true_peak_db": amplitude_to_decibels(peak),
        }


def _failed(error: OSError) -> AlphaMFError:
    return AlphaMFError(f"cannot write a temporary copy in {temporary_place()}: {reason(error)}")
