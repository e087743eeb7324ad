"""Denoise the input of a LiveKit agent: ``noise_cancellation=AlphaMFProcessor()``."""

from livekit import rtc

from alphamf.agents.even_stream import STRENGTH, EvenStream, check_strength


class AlphaMFProcessor(rtc.FrameProcessor[rtc.AudioFrame]):  # type: ignore[misc]
    """A processor that removes noise from the frames of a track, with 40 ms of delay.

    While `enabled` is False, LiveKit passes frames on by itself, without this delay.

    Parameters
    ----------
    strength
        How much of the denoising to apply, from 0 to 1.

    Raises
    ------
    AlphaMFError
        The strength or, in a frame, rate or channels are out of range, or no engine is compiled.
    """

    def __init__(self, strength: float = STRENGTH) -> None:
        self._strength = check_strength(strength)
        self._enabled = True
        self._stream: EvenStream | None = None

    @property
    def enabled(self) -> bool:
        """Whether frames are denoised; if not, LiveKit passes them on unchanged."""
        return self._enabled

    @enabled.setter
    def enabled(self, value: bool) -> None:
        if value != self._enabled:
            self._close()  # the sound that it holds back is too old by the time of the next frame
        self._enabled = value

    def _process(self, frame: rtc.AudioFrame) -> rtc.AudioFrame:
        rate, channels = frame.sample_rate, frame.num_channels
        stream = self._stream
        if stream is None or (stream.rate, stream.channels) != (rate, channels):
            self._close()
            stream = self._stream = EvenStream(rate, channels, self._strength)
        length = frame.samples_per_channel
        cleaned = stream.process(frame.data[: length * channels], self._strength)
        return rtc.AudioFrame(cleaned.tobytes(), rate, channels, length, userdata=frame.userdata)

    def _close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
