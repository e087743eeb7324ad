"""Sample formats (subtypes) of files."""

from __future__ import annotations

from typing import NamedTuple


class Subtype(NamedTuple):
    """A sample format."""

    name: str  # As libsndfile names it
    # Bits of an integer that `alphamf.audio.writer` rounds to; 0 where it does not round.
    bits: int = 0
    size: int = 1  # Bytes of a sample in a file, where it is not compressed
    fine: bool = False  # Whether it resolves more than 16 bits do
    companded: bool = False  # Whether larger values than full scale would wrap around
    wide: bool = False  # Whether single precision does not hold its samples


SUBTYPES = {
    subtype.name: subtype
    for subtype in (
        Subtype("PCM_S8", 8),
        Subtype("PCM_U8", 8),
        Subtype("PCM_16", 16, size=2),
        Subtype("PCM_24", 24, size=3, fine=True),
        Subtype("PCM_32", 32, size=4, fine=True, wide=True),
        Subtype("FLOAT", size=4, fine=True),
        Subtype("DOUBLE", size=8, fine=True, wide=True),
        Subtype("ULAW", companded=True),
        Subtype("ALAW", companded=True),
        Subtype("ALAC_16", 16),
        Subtype("ALAC_20", fine=True),
        Subtype("ALAC_24", 24, fine=True),
        Subtype("ALAC_32", fine=True, wide=True),
        *(
            Subtype(f"{codec}_{bits}", bits, fine=bits > 16)
            for codec in ("FLAC", "WAVPACK", "TTA", "APE", "TAK", "SHORTEN", "TRUEHD", "MLP")
            for bits in (16, 24)
        ),
        Subtype("AMR_NB", 16),
    )
}
"""The sample formats with properties beyond their names."""


def get(name: str) -> Subtype:
    """Return the record of a sample format; unknown formats get a minimal record."""
    return SUBTYPES.get(name, Subtype(name))
