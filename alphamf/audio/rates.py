"""Bit rate of MP3 and Opus files, which outputs inherit from their inputs."""

from __future__ import annotations

from typing import Any

from alphamf.audio import mp3, ogg
from alphamf.audio.file_pieces import Scan
from alphamf.audio.live_input import Recording


def compression(
    original: Recording | None, format: str, subtype: str, rate: int, channels: int
) -> dict[str, Any]:
    """Return the options of `soundfile.SoundFile` for about the input's bit rate."""
    if original is None or (original.format, original.subtype) != (format, subtype):
        return {}
    size = original.path.stat().st_size
    if format == "MP3":
        with original.path.open("rb") as file:
            start, variable = mp3.first_frame(Scan(file))
        kilobits = 8e-3 * (size - start) / original.duration
        least, most = (8, 64) if rate < 16000 else (8, 160) if rate < 32000 else (32, 320)
        if not variable:
            kilobits = max(kilobits, mp3.least_constant(rate, channels))
        mode = "AVERAGE" if variable else "CONSTANT"
        return {"compression_level": _level(kilobits, least, most), "bitrate_mode": mode}
    if subtype == "OPUS":
        with original.path.open("rb") as file:
            start = ogg.first_sound_page(Scan(file))
        kilobits = 8e-3 * (size - start) / original.duration / channels
        return {"compression_level": _level(kilobits, 6, 256)}
    return {}


def _level(kilobits: float, least: int, most: int) -> float:
    """Convert kb/s to libsndfile's compression level, from 0 for `most` to 1 for `least`.

    The level is at most .9999, because libsndfile refuses to write MP3 at 1.
    """
    return min(0.9999, max(0.0, (most - kilobits) / (most - least)))
