"""Scores that need a program or file from the user: a speech recogniser, or a network."""

import hashlib
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from alphamf.errors import AlphaMFError
from alphamf.scores import dnsmos, recognisers
from alphamf.scores.recognisers import error_rate, recognise_words, words
from alphamf.tools.arrays import Floats
from alphamf.tools.files import file_errors, printable_name

Values = dict[str, float | None]


class ExtraScores(NamedTuple):
    """Settings of the additional scores."""

    asr: str | None = None  # Name or command of a speech recogniser, or None
    # Pairs of a clean file's stem and its words; for other clips, the transcript that the
    # recogniser makes of the clean file is used.
    transcripts: tuple[tuple[str, str], ...] = ()
    dnsmos: str | None = None  # File of a DNSMOS network, or None

    def key(self, clean: str) -> list[str]:
        """Return texts that differ if the extra scores may differ; `clean` is `Result.clean`."""
        parts: list[str] = []
        if self.asr is not None:
            parts = [recognisers.identity(self.asr), self._said(clean) or ""]
        return [*parts, *([] if self.dnsmos is None else [_digest(self.dnsmos)])]

    def scores(
        self, estimate: Floats, clean: Floats, rate: int, name: str
    ) -> Iterator[tuple[Values, str | None]]:
        """Yield scores by name, each time with None, or with the reason if the scores are None.

        `estimate`, `clean`: shape (samples,). `name`: the clean file's name.
        """
        if self.asr is not None:
            try:
                clean = clean.astype(np.float32)
                reference = self._said(name)
                if reference is None:
                    reference = _clean_transcript(self.asr, clean.tobytes(), rate)
                transcript = recognise_words(self.asr, estimate, rate)
                yield {"wer": 100 * error_rate(words(reference), words(transcript))}, None
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
    """Return the settings (`model`: of DNSMOS); raise an AlphaMFError if an option is unusable."""
    if asr is not None:
        recognisers.check(asr)
    elif transcripts is not None:
        raise AlphaMFError("`transcripts` needs `asr`, which gives the recogniser")
    if model is not None:
        dnsmos.check(model)
    said = read_transcripts(transcripts) if transcripts is not None else {}
    return ExtraScores(asr, tuple(said.items()), model)


def read_transcripts(path: str) -> dict[str, str]:
    """Return words by file stem, read from lines of a stem and its words, or raise AlphaMFError."""
    with file_errors(path, "read", ValueError):
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
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


@lru_cache(maxsize=8)
def _clean_transcript(asr: str, clean: bytes, rate: int) -> str:
    """Return a recogniser's transcript of clean sound, given as bytes of float32; cached."""
    return recognise_words(asr, np.frombuffer(clean, np.float32), rate)


@cache
def _digest(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
