"""Scores that need a program or file from the user: a speech recogniser, or a network."""

from __future__ import annotations

import hashlib
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.scores import dnsmos
from alphamf.scores.words import error_rate, words
from alphamf.tools.arrays import Floats
from alphamf.tools.files import printable_name, reason

FILE = "{file}"
"""Stands for the sound file in a recogniser's command."""

SECONDS = 600
"""Maximum time of a recogniser for a clip, in seconds."""

Values = dict[str, float | None]


class ExtraScores(NamedTuple):
    """Settings of the additional scores.

    Attributes
    ----------
    asr
        Command of a recogniser, which prints the words of the file that `FILE` stands for.
    transcripts
        Words of each clean file by its stem; for other clips, the recogniser's transcript of the
        clean file is used.
    dnsmos
        File of a DNSMOS network, or None.
    """

    asr: str | None = None
    transcripts: tuple[tuple[str, str], ...] = ()
    dnsmos: str | None = None

    def key(self, clean: str) -> list[str]:
        """Return what the extra scores of a clip depend on; `clean` is `Result.clean`."""
        parts = [] if self.asr is None else [self.asr, self._said(clean) or ""]
        return [*parts, *([] if self.dnsmos is None else [_digest(self.dnsmos)])]

    def scores(
        self, estimate: Floats, clean: Floats, rate: int, name: str
    ) -> Iterator[tuple[Values, str | None]]:
        """Yield scores by name, with the reason if one is undefined.

        Parameters
        ----------
        estimate, clean
            Shape (samples,).
        rate
            Sampling rate in Hz.
        name
            `Result.clean`.
        """
        if self.asr is not None:
            try:
                clean = clean.astype(np.float32)
                said = self._said(name)
                said = _heard(self.asr, clean.tobytes(), rate) if said is None else said
                heard = recognise_words(self.asr, estimate, rate)
                yield {"wer": 100 * error_rate(words(said), words(heard))}, None
            except AlphaMFError as error:
                yield {"wer": None}, str(error)
        if self.dnsmos is not None:
            names = ("dnsmos_sig", "dnsmos_bak", "dnsmos_ovr")
            try:
                found = dnsmos.scores(self.dnsmos, estimate, rate)
                yield dict(zip(names, found, strict=True)), None
            except AlphaMFError as error:
                yield dict.fromkeys(names), str(error)

    def _said(self, clean: str) -> str | None:
        return dict(self.transcripts).get(PurePosixPath(clean).stem)


def parse_extra(asr: str | None, transcripts: str | None, model: str | None) -> ExtraScores:
    """Check the options, and return the additional scores that they ask for.

    Parameters
    ----------
    asr, transcripts, model
        Command, file and file, as the user names them.

    Raises
    ------
    AlphaMFError
        The command does not name the file, a file cannot be read, or something is not installed.
    """
    if asr is not None:
        _command(asr, "x.wav")
    elif transcripts is not None:
        raise AlphaMFError("--transcripts needs --asr, which gives the recogniser")
    if model is not None:
        dnsmos.check(model)
    said = read_transcripts(transcripts) if transcripts is not None else {}
    return ExtraScores(asr, tuple(said.items()), model)


def read_transcripts(path: str) -> dict[str, str]:
    """Read transcripts: lines with a file's stem and its words, as in LibriSpeech.

    Raises
    ------
    AlphaMFError
        The file cannot be read, or a line holds no words.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        raise AlphaMFError(f"{printable_name(path)} cannot be read: {reason(error)}") from error
    found = {}
    for number, line in enumerate(lines, 1):
        name, _, said = line.strip().replace("\t", " ").partition(" ")
        if name and not words(said):
            raise AlphaMFError(
                f"{printable_name(path)} has no words after the name in line {number}"
            )
        if name:
            found[name] = said
    if not found:
        raise AlphaMFError(f"{printable_name(path)} contains no transcripts")
    return found


def recognise_words(command: str, sound: Floats, rate: int) -> str:
    """Return the words that a recogniser prints for a sound.

    Raises
    ------
    AlphaMFError
        It fails, or takes too long.
    """
    import soundfile

    with tempfile.TemporaryDirectory(prefix="alphamf-asr-") as folder:
        file = Path(folder) / "sound.wav"
        soundfile.write(file, sound, rate, subtype="PCM_16")
        run = _command(command, str(file))
        try:
            done = subprocess.run(
                run, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS, check=False
            )
        except OSError as error:
            raise AlphaMFError(
                f"{printable_name(run[0])} cannot be started: {reason(error)}"
            ) from error
        except subprocess.TimeoutExpired as error:
            raise AlphaMFError(f"{printable_name(run[0])} took more than {SECONDS} s") from error
    if done.returncode:
        lines = done.stderr.decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "no message")
        raise AlphaMFError(
            f"{printable_name(run[0])} exited with code {done.returncode}: {printable_name(last)}"
        )
    return done.stdout.decode(errors="replace")


@lru_cache(maxsize=8)
def _heard(command: str, clean: bytes, rate: int) -> str:
    """Return the words that a recogniser prints for a clean sound, cached."""
    return recognise_words(command, np.frombuffer(clean, np.float32), rate)


def _command(command: str, file: str) -> list[str]:
    try:
        parts = shlex.split(command, posix=sys.platform != "win32")  # where \\ parts folders
    except ValueError as error:
        raise AlphaMFError(f"--asr {command!r} is not a valid command: {error}") from error
    if not any(FILE in part for part in parts):
        raise AlphaMFError(
            f"--asr {command!r} must contain {FILE}, which stands for the audio file"
        )
    return [part.strip('"').replace(FILE, file) for part in parts]


@cache
def _digest(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
