"""Files grouped by speaker."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from alphamf.errors import AlphaMFError
from alphamf.tools.arguments import file_name, shown_value

VoiceRule = Literal["file", "folder", "prefix"]
"""The names in `RULES`, for type checkers."""

RULES: tuple[str, ...] = get_args(VoiceRule)
"""Rules for the speaker of a file: each file is one; the first folder below the common one of all
paths; or the file's name up to the first ``-`` or ``_``."""


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

    LibriSpeech is ``SPEAKER/CHAPTER/SPEAKER-CHAPTER-N.flac``: both ``folder``, given the folder of
    the speakers, and ``prefix`` find its speakers.
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
