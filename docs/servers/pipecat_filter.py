"""Denoise what a pipecat agent hears: ``TransportParams(audio_in_filter=AlphaMFFilter())``.

The filter works before voice activity detection and the recogniser, and delays the sound by 40 ms.
"""

from __future__ import annotations

import numpy as np
from pipecat.audio.filters.base_audio_filter import BaseAudioFilter
from pipecat.frames.frames import FilterControlFrame, FilterEnableFrame

from alphamf import Stream


class AlphaMFFilter(BaseAudioFilter):
    """Remove the noise from one channel of 16-bit samples, as a pipecat transport passes them.

    Parameters
    ----------
    strength
        How much of the denoising to apply, from 0 to 1; recognisers like to keep some of the noise.
    """

    def __init__(self, strength: float = 0.7) -> None:
        self._strength = strength
        self._enabled = True

    async def start(self, sample_rate: int) -> None:
        """Open a stream at the transport's rate."""
        self._stream = Stream(sample_rate, 1, strength=self._strength, latency="low")
        # Silence first, so that every call returns as many samples as it gets.
        self._ready = np.zeros(round(self._stream.latency * sample_rate), np.int16)

    async def stop(self) -> None:
        """Close the stream."""
        self._stream.close()

    async def process_frame(self, frame: FilterControlFrame) -> None:
        """Switch the filter on or off."""
        if isinstance(frame, FilterEnableFrame):
            self._enabled = frame.enable

    async def filter(self, audio: bytes) -> bytes:
        """Return the denoised samples of 40 ms ago; of 20 ms they take less than one."""
        chunk = np.frombuffer(audio, np.int16)
        self._ready = np.concatenate([self._ready, self._stream.process(chunk)])
        cleaned, self._ready = np.split(self._ready, [len(chunk)])
        return cleaned.tobytes() if self._enabled else audio
