"""Denoise the input of a Pipecat agent: ``TransportParams(audio_in_filter=AlphaMFFilter())``."""

from pipecat.audio.filters.base_audio_filter import BaseAudioFilter
from pipecat.frames.frames import (
    FilterControlFrame,
    FilterEnableFrame,
    FilterUpdateSettingsFrame,
)

from alphamf.agents.even_stream import STRENGTH, EvenStream, check_strength


class AlphaMFFilter(BaseAudioFilter):  # type: ignore[misc]  # its types are not read
    """A filter that removes noise before voice activity detection, with 40 ms of delay.

    Pipecat's control frames switch it on or off and change its `strength`, without a jump in time.

    Parameters
    ----------
    strength
        How much of the denoising to apply, from 0 to 1.
    channels
        Number of channels, as ``audio_in_channels`` of the transport.

    Raises
    ------
    AlphaMFError
        A strength or, in `start`, the rate or channels are out of range, or no engine is compiled.
    """

    def __init__(self, strength: float = STRENGTH, channels: int = 1) -> None:
        self._strength, self._channels = check_strength(strength), channels
        self._enabled = True
        self._stream: EvenStream | None = None

    async def start(self, sample_rate: int) -> None:
        """Open a stream at the transport's rate in Hz, in place of an earlier one."""
        await self.stop()
        self._stream = EvenStream(sample_rate, self._channels, self._wanted)

    async def stop(self) -> None:
        """Close the stream; the 40 ms that it holds back are lost."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    async def process_frame(self, frame: FilterControlFrame) -> None:
        """Switch the filter on or off or set its strength, as a frame says; ignore other frames."""
        if isinstance(frame, FilterEnableFrame):
            self._enabled = frame.enable
        elif isinstance(frame, FilterUpdateSettingsFrame) and "strength" in frame.settings:
            self._strength = check_strength(frame.settings["strength"])

    async def filter(self, audio: bytes) -> bytes:
        """Return `audio` delayed by 40 ms, and denoised if enabled; without a stream, unchanged."""
        if self._stream is None:
            return audio
        return self._stream.process(audio, self._wanted).tobytes()

    @property
    def _wanted(self) -> float:
        return self._strength if self._enabled else 0.0
