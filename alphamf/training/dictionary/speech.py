"""Speech for training: files grouped by speaker, and read as trimmed mono sound at one rate."""

import math
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import dropwhile, islice
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np

from alphamf.audio import stft
from alphamf.audio.reader import Reader, open_reader, open_sound
from alphamf.audio.resample import resample
from alphamf.audio.stft import Frame
from alphamf.errors import AlphaMFError
from alphamf.tools import extras
from alphamf.tools.arguments import file_name, shown_value
from alphamf.tools.arrays import Floats

VoiceRule = Literal["file", "folder", "prefix"]
"""The names in `RULES`, for type checkers."""

RULES: tuple[str, ...] = get_args(VoiceRule)
"""What identifies a file's speaker, in this order: the file itself; the first folder below the one
that all files share; or the file's name, without extension, up to the first ``-`` or ``_``."""


def check_rule(rule: str) -> None:
    """Raise an AlphaMFError if a rule is not one of `RULES`."""
    if not isinstance(rule, str) or rule not in RULES:
        raise AlphaMFError(
            f"unknown rule {shown_value(rule)} for voices; it must be one of {', '.join(RULES)}"
        )


class Voice(NamedTuple):
    """A speaker with their files, in the order given."""

    name: str
    files: tuple[str, ...]


def group(paths: Sequence[str | os.PathLike[str]], rule: str = "file") -> list[Voice]:
    """Group files by voice, in the order of each voice's first file.

    ``SPEAKER/CHAPTER/SPEAKER-CHAPTER-N.flac``, as in LibriSpeech, needs ``prefix``, or ``folder``
    for several speakers. Both raise an AlphaMFError if several files all belong to one voice.
    """
    check_rule(rule)
    if isinstance(paths, str | bytes | os.PathLike) or not isinstance(paths, Iterable):
        raise AlphaMFError(f"paths must be a sequence of file names, not {shown_value(paths)}")
    files = [file_name("each of paths", path) for path in paths]
    names = files
    if rule == "folder":
        parents = [Path(os.path.abspath(file)).parent for file in files]
        shared = Path(os.path.commonpath(parents)) if parents else Path()
        names = [(*parent.relative_to(shared).parts, "")[0] for parent in parents]
    elif rule == "prefix":
        names = [re.split("[-_]", Path(file).stem, maxsplit=1)[0] for file in files]
    groups: dict[str, list[str]] = {}
    for name, file in zip(names, files, strict=True):
        groups.setdefault(name, []).append(file)
    if rule != "file" and len(groups) == 1 and len(files) > 1:
        raise AlphaMFError(
            f"the rule {rule} finds only one voice in {len(files)} files; choose another rule"
            + (
                ", or give the folder that contains one folder per speaker"
                if rule == "folder"
                else ""
            )
        )
    return [Voice(name, tuple(members)) for name, members in groups.items()]


QUIET_DB = 40.0
"""Level up to which sound counts as silence, in dB below a recording's peak or loudest frame."""


def read_beginning(path: str | os.PathLike[str], rate: int, frame: Frame, seconds: float) -> Floats:
    """Return the first `seconds` of speech in a file, at `rate`; empty if the file is silent.

    `frame`: window and hop in samples, for cutting off silence at both ends. Returns: mean of the
    channels, shape (samples,), float32. A damaged file, or a lower rate, raises an AlphaMFError.
    """
    with open_reader(path) as reader:
        reader.require_whole()
        _check_rate(reader, rate)
        # Blocks of a second, so that memory does not grow with the length of the file.
        blocks = (block.mean(axis=1) for block in reader.blocks(reader.rate))
        floor = reader.peak * 10 ** (-QUIET_DB / 20)
        spoken = dropwhile(lambda block: np.abs(block).max() <= floor, blocks)
        held = list(islice(spoken, math.ceil(seconds) + 1))
        if not held:
            return np.zeros(0, np.float32)
        sound = resample(np.concatenate(held), reader.rate, rate)
    return _trimmed(sound, rate, frame, seconds)


def spectrum(sound: Floats, frame: Frame) -> Floats | None:
    """Return each cell's power over the mean power, shape (bins, frames); None for silence."""
    # Scaled first, so that squares neither overflow nor vanish.
    peak = np.abs(sound).max(initial=0)
    if not peak > 0:
        return None
    power = np.abs(stft.forward(sound / peak, frame)) ** 2
    return power / power.mean()


RATES = (16000, 8000)
"""Rates of the shipped networks in Hz, which a dictionary of the same rate can use."""


def common_rate(files: Sequence[str]) -> int:
    """Return 16000 Hz, or 8000 Hz if the header of a file says that its rate is below 16000 Hz.

    Pipes, and files that cannot be read, are ignored.
    """
    for file in files:
        if os.path.isfile(file):
            with suppress(AlphaMFError, OSError), open_sound(Path(file), file) as sound:
                if sound.samplerate < RATES[0]:
                    return RATES[1]
    return RATES[0]


def _check_rate(reader: Reader, rate: int) -> None:
    if reader.rate < rate:
        raise AlphaMFError(
            f"{reader.name} has a rate of {reader.rate} Hz, but a dictionary at {rate} Hz "
            "needs at least that rate"
        )


def _trimmed(sound: Floats, rate: int, frame: Frame, seconds: float) -> Floats:
    trim = extras.load_library("librosa.effects").trim

    sound, _ = trim(sound, top_db=QUIET_DB, frame_length=frame.n_fft, hop_length=frame.hop_length)
    return sound[: int(seconds * rate)]
