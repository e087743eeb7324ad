"""Open a recording in libsndfile or FFmpeg, to be decoded by this process."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from alphamf.audio.layout import DecodingError
from alphamf.audio.media import kinds
from alphamf.audio.media.kinds import Openable
from alphamf.audio.media.track import Track
from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Floats
from alphamf.tools.files import file_errors, system_name

Wide = NDArray[np.float64]
"""Samples of any subtype, without conversion."""

_BARE = {".au": "ULAW", ".snd": "ULAW", ".vox": "VOX_ADPCM", ".gsm": "GSM610"}
"""Formats of files without a header, which libsndfile derives from the file extension."""

_BARE_RATE = 8000


def open_here(source: Openable, name: str, track: int | None = None, *, ending: str = "") -> Any:
    """Open a file in libsndfile, or an audio track of a media file in PyAV, to be read in order."""
    import soundfile

    with file_errors(name, "read"):
        kind = kinds.find(source)
    if kind is not None:
        return Track(source, name, kind, track)
    if track not in (None, 1):
        raise AlphaMFError(f"{name} has no tracks, so `track` {track} does not exist")
    try:
        file = _sound_file(source, ending.lower())
    except TypeError:  # soundfile asks for the rate of what ends in .raw
        raise AlphaMFError(
            f"{name} has the extension of raw samples, whose rate is not stored in the file; "
            "rename it, or convert it to WAV"
        ) from None
    except soundfile.LibsndfileError as error:
        if error.code == 1:
            raise AlphaMFError(f"{name} is not an audio file in a known format") from None
        what = error.error_string.rstrip(".")
        raise AlphaMFError(f"{name} cannot be read as audio: {what}") from None
    # soundfile seeks after each read where it can, which makes the MP3 decoder lose its bit
    # reservoir at every block. Reading in order needs no seeks.
    file.seekable = lambda: False
    return file


def _sound_file(source: Openable, ending: str) -> Any:
    """Open a file in libsndfile, or as headerless samples if only its extension says so."""
    import soundfile

    if isinstance(source, os.PathLike):
        ending = Path(source).suffix.lower()
    try:
        file = _opened(source)
        if file.format != "RAW":
            return file
        file.close()  # libsndfile has lost the first bytes of ULAW
    except soundfile.LibsndfileError as error:
        if error.code != 1 or ending not in _BARE:
            raise
    return _opened(source, "r", _BARE_RATE, 1, _BARE[ending], format="RAW")


def _opened(source: Openable, *words: Any, **named: Any) -> Any:
    """Open a file in libsndfile, by its name or as an open file that is closed with it."""
    import soundfile

    if isinstance(source, os.PathLike):
        return soundfile.SoundFile(system_name(Path(source)), *words, **named)
    with ExitStack() as stack:
        file = soundfile.SoundFile(stack.enter_context(source.open("rb")), *words, **named)
        stack.callback(file.close)
        file.close = stack.pop_all().close
    return file


def next_block(file: Any, size: int) -> Floats:
    """Return the next samples, shape (n, channels) with n at most `size`, or 0 at the end."""
    import soundfile

    try:
        block: Floats = file.read(size, dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as error:
        raise DecodingError(error.error_string.removeprefix("Error : ").rstrip(".")) from None
    return block


def next_wide_block(file: Any, size: int) -> Wide:
    """Return the next samples like `next_block`, in double precision."""
    block: Wide = file.read(size, dtype="float64", always_2d=True)
    return block


def has_tags(file: Any) -> bool:
    """Return whether a file has tags other than the name of the program that wrote it."""
    known = getattr(file, "has_tags", None)
    if known is None:
        known = bool(set(getattr(file, "copy_metadata", dict)()) - {"software"})
    return bool(known)
