"""Audio codecs that can be written to media containers, one record each."""

from __future__ import annotations

from typing import NamedTuple


class Codec(NamedTuple):
    """An audio codec."""

    # encoder, sample: FFmpeg's names of the encoder and of its sample format.
    encoder: str
    sample: str
    rates: tuple[int, ...] = ()  # Sampling rates in Hz; empty: any that the encoder takes
    # least, most: bits per second of a channel that a lossy encoder is asked for; 0 for others.
    least: int = 0
    most: int = 0
    lead: int = 0  # Frames of silence that the decoder drops beyond those that the encoder counts
    early: int = 0  # Samples by which the encoder takes its own delay for too long
    tail: int = 0  # Samples that the encoder keeps at the end unless as much silence follows
    raw_lead: int = 0  # Samples of silence that make its delay a whole frame


CODECS = {
    "AAC": Codec("aac", "fltp", least=16_000, most=288_000),
    "OPUS": Codec("libopus", "flt", (8000, 12000, 16000, 24000, 48000), 6_000, 256_000),
    "MP3": Codec("libmp3lame", "fltp", least=8_000, most=320_000),
    "AC3": Codec("ac3", "fltp", (32000, 44100, 48000), 32_000, 320_000, tail=256),
    "EAC3": Codec("eac3", "fltp", (32000, 44100, 48000), 32_000, 320_000, tail=256),
    "WMAV1": Codec("wmav1", "fltp", least=24_000, most=192_000, lead=1),
    "WMAV2": Codec("wmav2", "fltp", least=24_000, most=192_000, lead=1),
    "AMR_NB": Codec("libopencore_amrnb", "s16", (8000,), 4_750, 12_200, early=10, raw_lead=120),
    "ALAC_16": Codec("alac", "s16p"),
    "ALAC_24": Codec("alac", "s32p"),
    "FLAC_16": Codec("flac", "s16"),
    "FLAC_24": Codec("flac", "s32"),
    "PCM_16": Codec("pcm_s16le", "s16"),
    "PCM_24": Codec("pcm_s24le", "s32"),
    "PCM_32": Codec("pcm_s32le", "s32"),
    "FLOAT": Codec("pcm_f32le", "flt"),
}
"""The codecs by the name that they have as a subtype."""


_LOSSLESS = ("ALAC", "FLAC", "WAVPACK", "TTA", "APE", "TAK", "SHORTEN", "TRUEHD", "MLP", "RALF")


def subtype(codec: str, sample: str, bits: int) -> str:
    """Return the subtype name of a codec."""
    name = codec.upper()
    if name in _LOSSLESS:
        return f"{name}_{16 if sample.startswith(('s16', 'u8')) else 24}"
    if name.startswith("PCM_S") and not name.endswith("PLANAR"):
        return f"PCM_{int(''.join(filter(str.isdigit, name)))}"
    return "FLOAT" if name.startswith("PCM_F32") else name
