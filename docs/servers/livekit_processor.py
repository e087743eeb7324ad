"""Denoise what a LiveKit agent hears.

``rtc.AudioStream(track, noise_cancellation=AlphaMFProcessor())``. The sound is delayed by 40 ms.
"""

from __future__ import annotations

import numpy as np
from livekit import rtc

from alphamf import Stream


class AlphaMFProcessor(rtc.FrameProcessor[rtc.AudioFrame]):
    """Remove the noise from the frames of a track.

    Parameters
    ----------
    strength
        How much of the denoising to apply, from 0 to 1; recognisers like to keep some of the noise.
    """

    def __init__(self, strength: float = 0.7) -> None:
        self._strength = strength
        self._enabled = True
        self._stream: Stream | None = None

    @property
    def enabled(self) -> bool:
        """Whether frames are denoised, or passed on as they are."""
        return self._enabled

    @enabled.setter
    def enabled(self, value: bool) -> None:
        self._enabled = value

    def _process(self, frame: rtc.AudioFrame) -> rtc.AudioFrame:
        rate, channels = frame.sample_rate, frame.num_channels
        stream = self._stream
        if stream is None or (stream.rate, stream.channels) != (rate, channels):
            stream = self._stream = Stream(rate, channels, strength=self._strength, latency="low")
            # Silence first, so that every frame is as long as the one it comes from.
            self._ready = np.zeros((round(stream.latency * rate), channels), np.int16)
        chunk = np.frombuffer(frame.data, np.int16).reshape(-1, channels)
        self._ready = np.concatenate([self._ready, stream.process(chunk)])
        cleaned, self._ready = np.split(self._ready, [len(chunk)])
        if not self._enabled:
            return frame
        return rtc.AudioFrame(cleaned.tobytes(), rate, channels, len(chunk))

    def _close(self) -> None:
        if self._stream is not None:
            self._stream.close()
