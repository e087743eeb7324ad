"""Denoise a stream in segments that overlap and are crossfaded, in constant memory."""

from collections import deque
from typing import NamedTuple

import numpy as np

from alphamf.audio.stft import Frame
from alphamf.denoising.estimate import ChannelEstimate
from alphamf.denoising.gain import least_gain, mix_dry
from alphamf.denoising.grids import native_grid
from alphamf.denoising.hints import Hints, within
from alphamf.denoising.posterior import Agreement, sum_agreements
from alphamf.denoising.stream_options import Samples, SoundProgress, StreamOptions, describe_samples
from alphamf.denoising.weights import Weights
from alphamf.denoising.workers import Piece, Workers
from alphamf.tools.arrays import Floats

SEGMENT_SECONDS = 10
OVERLAP_SECONDS = 0.5


class Segment(NamedTuple):
    """A denoised segment.

    Attributes
    ----------
    audio, noise
        Speech and noise estimate, in the chunks' shape and axis order, float32 or the input's
        integer dtype. They add up to the input if `dry` is 0.
    gain, gain_std
        Gain of the speech, from 0 to 1, and its standard deviation: that of the posterior or, with
        networks, the expected error of the gain; shape (channels, bins, frames), for the frames
        of this segment. Without networks, channels that share a voice have the gains before their
        spatial filter: with 100 steps or more, the means of the gains of their components,
        weighted with the power of these in the cell.
    acceptance
        Proportion of accepted Phi proposals of speech and noise; and of moves of W and H, if the
        sampler accepts or rejects them, as ``"hmc-positive"`` does.
    activity
        Probability of speech in each of these frames, shape (frames,): the highest of all channels
        or, at low latency, that of the channel with the most speech.
    agreement
        How well several chains agree, over all channels; None for a single chain, and for digital
        silence.
    note
        A note on the segment, such as that low-latency processing was reset; or None.

    Examples
    --------
    >>> import soundfile
    >>> audio, rate = soundfile.read("data/sample-noisy.wav", frames=32000)
    >>> from alphamf import Stream
    >>> with Stream(rate, preset="fast") as stream:
    ...     segments = [*stream.segments(audio), *stream.rest()]
    >>> [segment.audio.shape for segment in segments]
    [(32000,)]
    """

    audio: Samples
    noise: Samples
    gain: Floats
    gain_std: Floats
    acceptance: list[float]
    activity: Floats
    agreement: Agreement | None = None
    note: str | None = None

    def __repr__(self) -> str:
        return f"Segment({describe_samples(self.audio, len(self.gain))})"


class Cutter:
    """Cuts a stream into pieces of ``step + overlap`` samples.

    The last piece has the remaining samples, over ``step / 2 + overlap`` and up to ``3 step / 2 +
    overlap``, so that none is too short to learn a noise from. A shorter stream is one piece.
    """

    # Samples from one piece's start to the next, and samples that successive pieces have in common.
    step: int
    overlap: int

    def __init__(self, step: int, overlap: int) -> None:
        self.step, self.overlap = step, overlap
        self.limit: int = step + overlap + step // 2
        self._held: list[Floats] = []
        self._count = 0

    def push(self, block: Floats) -> None:
        """Add a block, shape (samples, channels)."""
        self._held.append(block)
        self._count += len(block)

    def piece(self) -> Piece | None:
        """Return the next piece, or None until more than `limit` samples are held."""
        if self._count <= self.limit:
            return None
        audio = self._held[0] if len(self._held) == 1 else np.concatenate(self._held)
        self._held = [audio[self.step :]]
        self._count -= self.step
        return Piece(audio[: self.step + self.overlap], self.step)

    def last(self) -> Piece | None:
        """Return the rest of the stream as one piece, or None if nothing is left."""
        if not self._count:
            return None
        audio = np.concatenate(self._held)
        self._held, self._count = [], 0
        return Piece(audio, len(audio))


class SegmentDenoiser:
    """Denoises a stream in segments.

    Each segment is continued by a window of its mirror image at both ends: an abrupt end spreads
    noise over all frequencies, and much of that noise would remain (docs/quality.md).
    """

    def __init__(
        self, rate: int, weights: Weights, options: StreamOptions, progress: SoundProgress
    ) -> None:
        self._rate, self._settings = rate, options.settings
        self._hints = options.hints or Hints()
        self._frame: Frame = native_grid(weights.dictionary, rate).frame
        self._hop = self._frame.hop_length
        step = SEGMENT_SECONDS * rate // self._hop * self._hop
        self._cutter = Cutter(step, round(OVERLAP_SECONDS * rate))
        self.latency: int = self._cutter.limit + (options.jobs - 1) * step
        self._workers = Workers(rate, weights, options, progress)
        self._pieces: deque[Piece] = deque()
        self._tail: Floats | None = None
        self._position = 0

    def push(self, block: Floats) -> None:
        """Add a block, shape (samples, channels)."""
        self._cutter.push(block)

    def next(self, *, ended: bool) -> Segment | None:
        """Return the next segment that is ready, or None; `ended` means that no block follows."""
        while (channels := self._workers.next_estimates()) is None:
            piece = self._cutter.piece()
            if piece is None and ended:
                piece = self._cutter.last()
            if piece is None:
                break
            self._pieces.append(piece)
            longer = continue_mirrored(piece.audio, self._frame.n_fft)
            self._workers.submit(piece._replace(audio=longer))
        if channels is None and ended:
            channels = self._workers.next_estimates(last=True)
        if channels is None:
            return None
        own = [without_mirror_images(each, self._frame) for each in channels]
        return self._segment(self._pieces.popleft(), own)

    def close(self) -> None:
        """Stop the work in progress."""
        self._workers.close()

    def _segment(self, piece: Piece, channels: list[ChannelEstimate]) -> Segment:
        """Return a segment that is crossfaded with the one before."""
        speech = np.stack([each.speech for each in channels], axis=1)
        if self._tail is not None:
            fade_in(speech, self._tail)
        self._tail = speech[piece.step :]
        speech, audio = speech[: piece.step], piece.audio[: piece.step]
        last = piece.step == len(piece.audio)
        frames = slice(None) if last else slice(piece.step // self._hop)
        gain, gain_std, activity = (
            np.stack([getattr(each, name)[..., frames] for each in channels])
            for name in ("gain", "gain_std", "activity")
        )
        activity = activity.max(axis=0)
        self._apply_hints(audio, speech, gain, gain_std, activity)
        return Segment(
            audio=mix_dry(audio, speech, self._settings),
            noise=audio - speech,
            gain=gain,
            gain_std=gain_std,
            acceptance=[float(a) for a in np.mean([e.acceptance for e in channels], axis=0)],
            activity=activity,
            agreement=sum_agreements(each.agreement for each in channels),
        )

    def _apply_hints(
        self, audio: Floats, speech: Floats, gain: Floats, gain_std: Floats, activity: Floats
    ) -> None:
        """Apply the user's hints to speech, gain, its deviation and activity, in place."""
        start, self._position = self._position, self._position + len(audio)
        if not (self._hints.noise_from or self._hints.speech_from):
            return
        least = least_gain(self._settings)
        kept = self._hints.fade_curve(start, len(audio), self._rate)[:, None]
        speech -= (1 - kept) * (speech - least * audio)
        times = (start + np.arange(len(activity)) * self._hop) / self._rate
        noise = within(self._hints.noise_from, times)
        gain[..., noise], gain_std[..., noise], activity[noise] = least, 0, 0
        activity[within(self._hints.speech_from, times)] = 1


def continue_mirrored(audio: Floats, samples: int) -> Floats:
    """Continue a sound at both ends by `samples` samples of its mirror image.

    `audio`: shape (samples, channels), not empty.
    """
    return np.pad(audio, [(samples, samples), (0, 0)], mode="reflect")


def without_mirror_images(estimate: ChannelEstimate, frame: Frame) -> ChannelEstimate:
    """Return the estimate of a channel without the mirror images at both ends."""
    samples = slice(frame.n_fft, -frame.n_fft)
    overlap = frame.n_fft // frame.hop_length
    frames = slice(overlap, -overlap)
    return estimate._replace(
        speech=estimate.speech[samples],
        gain=estimate.gain[:, frames],
        gain_std=estimate.gain_std[:, frames],
        activity=estimate.activity[frames],
    )


def fade_in(audio: Floats, before: Floats) -> None:
    """Crossfade linearly from the end of the previous piece into the start of `audio`, in place.

    Both contain the same sound, so the weights of the amplitudes must add up to one.
    """
    n = len(before)
    rise = ((np.arange(n, dtype=np.float32) + 0.5) / np.float32(n))[:, None]
    audio[:n] = before + rise * (audio[:n] - before)
