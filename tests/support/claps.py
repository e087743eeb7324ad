"""Media files with claps: a white picture and a click at the same time, made by PyAV."""

from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FRAMES = 25
"""Pictures per second."""

CLAPS = (15, 32, 41)
"""Numbers of the pictures that are white."""

PICTURES = 45


class Sound(NamedTuple):
    """How a track is coded."""

    encoder: str = "aac"
    sample: str = "fltp"
    rate: int = 48000
    channels: int = 1
    bit_rate: int = 96_000


def clicks(rate: int, channels: int = 1, seconds: float = PICTURES / FRAMES) -> np.ndarray:
    """Return clicks at the claps over faint noise, shape (samples, channels)."""
    rng = np.random.default_rng(3)
    sound = 0.003 * rng.standard_normal(round(seconds * rate))
    for number in CLAPS:
        at = number * rate // FRAMES
        if at < len(sound):
            sound[at : at + 400] += 0.2 * rng.standard_normal(400) * np.exp(-np.arange(400) / 60)
    return np.repeat(sound[:, None], channels, 1).astype(np.float32)


def make(
    path: Path,
    muxer: str,
    *sounds: Sound,
    video: str | None = "mpeg4",
    delay: float = 0.0,
    chapters: bool = False,
    metadata: dict[str, str] | None = None,
    content: np.ndarray | None = None,
    options: dict[str, str] | None = None,
) -> None:
    """Write a file of claps; its sound begins `delay` seconds late, and is silent there."""
    import av

    with av.open(str(path), "w", format=muxer, options=options or {}) as out:
        picture = None
        if video is not None:
            picture = out.add_stream(video, rate=FRAMES)
            picture.width, picture.height, picture.pix_fmt = 64, 48, "yuv420p"
        tracks = []
        for sound in sounds:
            track = out.add_stream(sound.encoder, rate=sound.rate)
            context = track.codec_context
            context.format, context.layout = sound.sample, ("mono", "stereo")[sound.channels - 1]
            context.time_base, context.bit_rate = Fraction(1, sound.rate), sound.bit_rate
            track.metadata["language"] = ("deu", "eng")[len(tracks)]
            tracks.append(track)
        out.metadata.update(metadata or {})
        if chapters:
            parts = ((0, 1000, "one"), (1000, 3000, "two"))
            out.set_chapters(
                [
                    {"id": k, "start": a, "end": b, "time_base": Fraction(1, 1000)}
                    | {"metadata": {"title": title}}
                    for k, (a, b, title) in enumerate(parts)
                ]
            )
        out.start_encoding()
        for number in range(PICTURES if picture is not None else 0):
            image = np.full((48, 64, 3), 255 * (number in CLAPS), np.uint8)
            out.mux(picture.encode(av.VideoFrame.from_ndarray(image, format="rgb24")))
        if picture is not None:
            out.mux(picture.encode(None))
        for track, sound in zip(tracks, sounds, strict=True):
            data = clicks(sound.rate, sound.channels) if content is None else content
            _encode(out, track, sound, data, round(delay * sound.rate))


def _encode(out: Any, track: Any, sound: Sound, data: np.ndarray, first: int) -> None:
    import av

    size = track.codec_context.frame_size or 1024
    if sound.sample.startswith("s16"):
        data = np.rint(data * 32767).astype(np.int16)
    for at in range(first, len(data), size):
        part = data[at : at + size]
        part = part.T if sound.sample.endswith("p") else part.reshape(1, -1)
        layout = track.codec_context.layout.name
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(part), sound.sample, layout)
        frame.sample_rate, frame.time_base = sound.rate, Fraction(1, sound.rate)
        frame.pts = at
        out.mux(track.encode(frame))
    out.mux(track.encode(None))


def heard(path: Path, track: int = 0) -> tuple[np.ndarray, float]:
    """Return what a player hears, shape (samples,), and when it begins in seconds."""
    import av

    parts, start = [], None
    with av.open(str(path)) as file:
        for frame in file.decode(audio=track):
            data = frame.to_ndarray().astype(np.float64)
            if not frame.format.is_planar:
                data = data.reshape(-1, len(frame.layout.channels)).T
            if start is None:
                start = float(frame.pts * frame.time_base)
            parts.append(data[0] / (1 if frame.format.name.startswith("fl") else 32768))
    assert start is not None
    return np.concatenate(parts), start


def offsets(path: Path, track: int = 0) -> list[float]:
    """Return how many samples after its picture each click is heard."""
    import av

    with av.open(str(path)) as file:
        rate = file.streams.audio[track].rate
        flashes = [
            float(frame.pts * frame.time_base)
            for frame in file.decode(video=0)
            if frame.to_ndarray(format="gray").mean() > 128
        ]
    sound, start = heard(path, track)
    pattern = clicks(rate)[:, 0]
    found = []
    for number, flash in zip(CLAPS, flashes, strict=True):
        at = number * rate // FRAMES
        click = pattern[at : at + 400]
        near = round((flash - start) * rate)
        low = max(0, near - 4000)
        match = np.correlate(sound[low : near + 4000], click)
        found.append(low + int(match.argmax()) + (start - flash) * rate)
    return found


def packets(path: Path, track: int) -> list[tuple[float, bytes]]:
    """Return when each packet of a track is shown or heard, in seconds, and its bytes."""
    import av

    with av.open(str(path)) as file:
        return [
            (float(packet.pts * packet.time_base), bytes(packet))
            for packet in file.demux(file.streams[track])
            if packet.size
        ]
