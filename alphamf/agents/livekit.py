"""Denoise the input of a LiveKit agent: ``noise_cancellation=AlphaMFProcessor()``."""

from livekit import rtc

from alphamf.agents.even_stream import STRENGTH, EvenStream, check_strength


class AlphaMFProcessor(rtc.FrameProcessor[rtc.AudioFrame]):  # type: ignore[misc]
    """Remove the noise from the frames of a track, 40 ms later, at any rate and channels.

    LiveKit passes frames on by itself while `enabled` is false, without the 40 ms.

    Parameters
    ----------
    strength
        How much of the denoising to apply, from 0 to 1.

    Raises
    ------
    AlphaMFError
        The strength or the sampling rate is out of range.
    """

    def __init__(self, strength: float = STRENGTH) -> None:
        self._strength = check_strength(strength)
        self._enabled = True
        self._stream: EvenStream | None = None

    @property
    def enabled(self) -> bool:
        """Whether frames are denoised; if not, they are passed on unchanged."""
        return self._enabled

    @enabled.setter
    def enabled(self, value: bool) -> None:
        if value != self._enabled:
            self._close()  # what it holds back is of another time
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
