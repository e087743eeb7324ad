"""The recordings of a server: their state, and the tasks that take them from upload to download."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from alphamf.errors import AlphaMFError
from alphamf.serving.lanes import Lanes, Ticket
from alphamf.serving.limits import Limits
from alphamf.serving.names import result_name
from alphamf.serving.store import new_folder
from alphamf.serving.tasks import (
    SOURCE,
    SPEECH,
    Look,
    Preview,
    Render,
    Sound,
    Task,
    Whole,
    held,
    preview_name,
)
from alphamf.tools.pool import cores
from alphamf.tools.work import Outcome

FAULT = "a fault of alphamf stopped this: the terminal of the server says more"

RENDERS = 4
"""Downloads that are kept of a recording, beside the one in its own format."""


@dataclass(eq=False)
class Recording:
    """A recording and what has become of it.

    Attributes
    ----------
    id, folder
        Its name in addresses, which cannot be guessed; its folder.
    name
        What the user calls it.
    preset, seed
        As for ``alphamf denoise``.
    state
        ``reading``, ``waiting``, ``denoising``, ``done`` or ``failed``.
    error
        One sentence, or None.
    about
        Format, rate, channels and length, once it has been read.
    preview
        First sample and number of samples that were denoised ahead; None before.
    previewing
        Whether a preview is under way.
    done
        Seconds of sound denoised so far.
    result
        The report, once it is denoised.
    version
        Counts the changes.
    """

    id: str
    folder: Path
    name: str
    preset: str
    seed: int
    state: str = "reading"
    error: str | None = None
    about: dict[str, Any] | None = None
    preview: dict[str, int] | None = None
    previewing: bool = False
    done: float = 0.0
    result: dict[str, Any] | None = None
    version: int = 0
    created: float = field(default_factory=time.monotonic)
    begun: float = 0.0
    tickets: set[Ticket] = field(default_factory=set)
    renders: list[str] = field(default_factory=list)
    rendering: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def sound(self) -> Sound:
        """Rate, channels and length."""
        about = self.about or {}
        return Sound(about["rate"], about["channels"], about["frames"])

    def ready(self) -> int:
        """Return how many samples of the speech are there."""
        return held(self.folder / SPEECH, self.sound.channels) if self.about else 0

    def json(self) -> dict[str, Any]:
        """Return the state for the browser."""
        duration = self.about["duration"] if self.about else 0.0
        share = min(1.0, self.done / duration) if duration else 0.0
        left = None
        if self.state == "denoising" and share > 0.01:
            left = (time.monotonic() - self.begun) * (1 - share) / share
        result = self.result or {}
        kept = ("format", "subtype", "clipped", "clipped_by_db", "note", "seconds", "noise")
        return {
            "id": self.id,
            "name": self.name,
            "preset": self.preset,
            "seed": self.seed,
            "state": self.state,
            "error": self.error,
            "about": self.about,
            "preview": self.preview,
            "previewing": self.previewing,
            "progress": 1.0 if self.state == "done" else share,
            "seconds_left": left,
            "ready": self.ready(),
            "output": self.about and result_name(self.name, self.about["format"]),
            "result": self.result and {key: result[key] for key in kept},
        }

    def sentence(self, outcome: Outcome) -> str:
        """Return the error of an outcome, without a path of the server."""
        if outcome.details:
            print(outcome.details, file=sys.stderr, end="")
            return FAULT
        text = (outcome.error or "").replace(str(self.folder / SOURCE), self.name)
        return text.replace(f"{self.folder}/", "")


class Recordings:
    """All recordings of a server.

    Parameters
    ----------
    store
        Folder for theirs; an attribute, too.
    limits
        Of the server.
    jobs
        Recordings that are denoised at a time. One more process reads uploads and makes previews
        and downloads, so that these never wait for a long recording.
    """

    def __init__(self, store: Path, limits: Limits, jobs: int) -> None:
        self.store, self._limits = store, limits
        self._all: dict[str, Recording] = {}
        self._long, self._short = Lanes(jobs), Lanes(1)
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._leaving: set[asyncio.Task[None]] = set()

    def get(self, name: str) -> Recording | None:
        """Return a recording, or None where there is none of that name."""
        return self._all.get(name)

    def new(self, name: str, preset: str, seed: int) -> Recording:
        """Make the folder for an upload.

        Raises
        ------
        AlphaMFError
            There are too many recordings.
        OSError
            The disk is full.
        """
        if len(self._all) >= self._limits.jobs:
            raise AlphaMFError(
                f"the server holds {self._limits.jobs} recordings already: remove some"
            )
        key, folder = new_folder(self.store)
        self._all[key] = Recording(key, folder, name, preset, seed)
        return self._all[key]

    def begin(self, recording: Recording) -> None:
        """Read a recording that was uploaded, denoise its beginning, then all of it."""
        task = Look(recording.folder, self._limits.samples)
        self._put(self._short, recording, task, self._looked, seconds=self._limits.reading)

    def start_preview(self, recording: Recording, start: int) -> None:
        """Denoise ten seconds ahead of the rest."""
        recording.previewing = True
        task = Preview(recording.folder, recording.sound, start, recording.seed, cores())
        self._put(self._short, recording, task, self._previewed, first=True)
        self._touch(recording)

    async def render(self, recording: Recording, name: str, form: str, dry: float) -> Path:
        """Write a download, unless it is there already, and return its file.

        Parameters
        ----------
        recording
            One that is done.
        name
            Of the file; it names the format and the part of the input, too.
        form
            Format, as libsndfile names it.
        dry
            Part of the input.

        Raises
        ------
        AlphaMFError
            It cannot be written.
        """
        async with recording.rendering:
            if name not in recording.renders:
                subtype = (recording.about or {})["subtype"]
                task = Render(recording.folder, recording.sound, name, form, subtype, dry)
                outcome: asyncio.Future[Outcome] = self._loop.create_future()

                def done(_: Recording, found: Outcome) -> None:
                    if not outcome.done():
                        outcome.set_result(found)

                ticket = self._put(self._short, recording, task, done)
                while not outcome.done():
                    await asyncio.wait([outcome], timeout=0.2)
                    if ticket.stopped.is_set():
                        raise AlphaMFError("the recording was removed")
                if outcome.result().error is not None:
                    raise AlphaMFError(recording.sentence(outcome.result()))
                recording.renders.append(name)
                for old in recording.renders[:-RENDERS]:
                    (recording.folder / old).unlink(missing_ok=True)
                del recording.renders[:-RENDERS]
        return recording.folder / name

    def remove(self, recording: Recording) -> None:
        """Stop what is done for a recording, and delete it."""
        if self._all.pop(recording.id, None) is None:
            return
        self._touch(recording)
        leaving = asyncio.create_task(self._delete(recording))
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)

    async def keep_clean(self) -> None:
        """Delete recordings that are too old, for ever."""
        while True:
            await asyncio.sleep(60)
            oldest = time.monotonic() - self._limits.age
            for recording in [each for each in self._all.values() if each.created < oldest]:
                self.remove(recording)

    async def changes(self, seconds: float) -> None:
        """Wait until some recording has changed, or so long."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)

    async def close(self) -> None:
        """Stop everything."""
        for lanes in (self._long, self._short):
            await asyncio.to_thread(lanes.close)

    async def _delete(self, recording: Recording) -> None:
        for ticket in recording.tickets:
            self._long.stop(ticket)
            self._short.stop(ticket)
            await asyncio.to_thread(ticket.left.wait)
        await asyncio.to_thread(shutil.rmtree, recording.folder, ignore_errors=True)

    def _put(
        self,
        lanes: Lanes,
        recording: Recording,
        task: Task,
        done: Callable[[Recording, Outcome], None],
        *,
        seconds: float | None = None,
        first: bool = False,
    ) -> Ticket:
        """Queue a task; what it calls runs in the event loop."""

        def back(function: Callable[..., None], *arguments: Any) -> None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(function, recording, *arguments)

        ticket = Ticket(
            task,
            progress=partial(back, self._progressed),
            done=partial(back, done),
            started=partial(back, self._started, task),
            seconds=seconds,
        )
        recording.tickets = {each for each in recording.tickets if not each.left.is_set()}
        recording.tickets.add(ticket)
        lanes.put(ticket, first=first)
        return ticket

    def _touch(self, recording: Recording) -> None:
        recording.version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    def _started(self, recording: Recording, task: Task) -> None:
        if isinstance(task, Whole):
            recording.state, recording.begun = "denoising", time.monotonic()
            self._touch(recording)

    def _progressed(self, recording: Recording, done: float, total: float) -> None:
        recording.done = done
        self._touch(recording)

    def _fail(self, recording: Recording, outcome: Outcome) -> None:
        recording.state, recording.error = "failed", recording.sentence(outcome)
        self._touch(recording)

    def _looked(self, recording: Recording, outcome: Outcome) -> None:
        if outcome.error is not None:
            self._fail(recording, outcome)
            return
        recording.about, recording.state = outcome.result, "waiting"
        self.start_preview(recording, 0)

    def _previewed(self, recording: Recording, outcome: Outcome) -> None:
        recording.previewing = False
        if outcome.error is not None:
            self._fail(recording, outcome)
            return
        if recording.preview not in (None, outcome.result):
            (recording.folder / preview_name(recording.preview["start"])).unlink(missing_ok=True)
        recording.preview = outcome.result
        if recording.state == "waiting" and recording.id in self._all and not recording.begun:
            recording.begun = time.monotonic()
            jobs = max(1, cores() // (1 + self._long.under_way()))
            task = Whole(recording.folder, recording.preset, recording.seed, jobs)
            self._put(self._long, recording, task, self._finished)
        self._touch(recording)

    def _finished(self, recording: Recording, outcome: Outcome) -> None:
        if outcome.error is not None:
            self._fail(recording, outcome)
            return
        recording.result, recording.state = outcome.result, "done"
        self._touch(recording)
