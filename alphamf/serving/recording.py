"""A recording on the server, and its state for the browser."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from alphamf.serving.lanes import Ticket
from alphamf.serving.names import result_name
from alphamf.serving.sound import SOURCE, SPEECH, SoundShape, stored_samples
from alphamf.tools.outcomes import Outcome
from alphamf.tools.stopwatch import elapsed_seconds

FAULT = "an internal error occurred; see the terminal of the server for details"


@dataclass(eq=False)
class EchoRemoval:
    """A second run over a recording, which removes the echo, too."""

    ticket: Ticket | None = None  # Of its task; None until it is queued.
    seconds: float = 0.0  # Seconds of sound denoised so far
    error: str | None = None  # One sentence, or None
    result: dict[str, Any] | None = None  # The report, once it is done

    def as_json(self, duration: float) -> dict[str, Any]:
        """Return the state for the browser."""
        done = self.result is not None
        share = min(1.0, self.seconds / duration) if duration and not done else float(done)
        return {"done": done, "progress": share, "error": self.error}


@dataclass(eq=False)
class ServerRecording:
    """A recording, its state and its results."""

    # id, folder: its name in addresses, which cannot be guessed; its folder.
    id: str
    folder: Path
    name: str  # Name of the file for the user
    # preset, seed: as for ``alphamf denoise``.
    preset: str
    seed: int
    guest: str = ""  # Whose recording it is, where strangers share the server
    state: str = "reading"  # ``reading``, ``waiting``, ``denoising``, ``done`` or ``failed``
    error: str | None = None  # One sentence, or None
    about: dict[str, Any] | None = None  # Format, rate, channels and length, once it has been read
    # First sample and number of samples that were denoised ahead; None before.
    preview: dict[str, int] | None = None
    previewing: bool = False  # Whether a preview is under way
    done: float = 0.0  # Seconds of sound denoised so far
    result: dict[str, Any] | None = None  # The report, once it is denoised
    # The run that removes the echo, too; None until somebody asks for it.
    echo: EchoRemoval | None = None
    version: int = 0  # Counts the changes
    created: float = field(default_factory=elapsed_seconds)
    begun: float = 0.0
    tickets: set[Ticket] = field(default_factory=set)
    renders: dict[str, Path] = field(default_factory=dict)
    readers: Counter[str] = field(default_factory=Counter)
    rendering: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def sound(self) -> SoundShape:
        """Rate, channels and length."""
        about = self.about or {}
        return SoundShape(about["rate"], about["channels"], about["frames"])

    def count_ready_samples(self) -> int:
        """Return the number of samples per channel of the speech that are ready."""
        return stored_samples(self.folder / SPEECH, self.sound) if self.about else 0

    def as_json(self) -> dict[str, Any]:
        """Return the state for the browser."""
        duration = self.about["duration"] if self.about else 0.0
        share = min(1.0, self.done / duration) if duration else 0.0
        left = None
        if self.state == "denoising" and share > 0.05:  # before, it says how long the start took
            left = (time.monotonic() - self.begun) * (1 - share) / share
        result = self.result or {}
        kept = ("format", "subtype", "clipped", "clipped_by_db", "note", "seconds")
        own = "id name preset seed state error about preview previewing".split()
        return {
            **{name: getattr(self, name) for name in own},
            "progress": 1.0 if self.state == "done" else share,
            "seconds_left": left,
            "ready": self.count_ready_samples(),
            "output": self.about and result_name(self.name, self.about["format"]),
            "result": self.result and {key: result[key] for key in kept},
            "echo": self.echo and self.echo.as_json(duration),
        }

    def error_message(self, outcome: Outcome) -> str:
        """Return the error message of an outcome, without paths on the server."""
        if outcome.details:
            print(outcome.details, file=sys.stderr, end="")
            return FAULT
        text = (outcome.error or "").replace(str(self.folder / SOURCE), self.name)
        return text.replace(f"{self.folder}/", "")
