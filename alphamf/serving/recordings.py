"""All recordings of a server, and the tasks that process them from upload to download."""

import asyncio
import os
import secrets
import shutil
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from alphamf.audio.formats import final_name
from alphamf.audio.search import InputFile
from alphamf.batch.inputs import derived_name
from alphamf.errors import AlphaMFError
from alphamf.serving.lanes import Lanes, Ticket
from alphamf.serving.limits import Limits
from alphamf.serving.render import (
    SOURCE,
    SPEECH,
    Mix,
    RenderTask,
    SoundShape,
    preview_name,
    stored_samples,
)
from alphamf.serving.tasks import DenoiseTask, PreviewTask, ReadTask, Task
from alphamf.tools.outcomes import Outcome
from alphamf.tools.pool import cores
from alphamf.tools.stopping import elapsed_seconds

FAULT = "an internal error occurred; see the terminal of the server for details"


@dataclass(eq=False)
class EchoRemoval:
    """State of a second run over a recording, which removes the echo, too."""

    ticket: Ticket | None = None  # Ticket of its task; None until it is queued
    seconds: float = 0.0  # Seconds of sound denoised so far
    error: str | None = None  # Error message in one sentence, or None
    result: dict[str, Any] | None = None  # Report of the run; None until it is done

    def as_json(self, duration: float) -> dict[str, Any]:
        """Return the state for the browser; `duration`: length of the recording in seconds."""
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
    guest: str = ""  # Visitor who uploaded it if strangers share the server, or empty
    state: str = "reading"  # ``reading``, ``waiting``, ``denoising``, ``done`` or ``failed``
    error: str | None = None  # Error message in one sentence, or None
    about: dict[str, Any] | None = None  # Format, rate, channels and length, once it has been read
    # First sample and number of samples of the newest preview; None before the first one.
    preview: dict[str, int] | None = None
    previewing: bool = False  # Whether a preview is queued or being computed
    done: float = 0.0  # Seconds of sound denoised so far
    result: dict[str, Any] | None = None  # Report of the denoising; None until it is done
    # The run that removes the echo, too; None until somebody asks for it.
    echo: EchoRemoval | None = None
    version: int = 0  # Number of changes so far
    created: float = field(default_factory=elapsed_seconds)
    begun: float = 0.0
    tickets: set[Ticket] = field(default_factory=set)
    renders: dict[str, Path] = field(default_factory=dict)
    readers: Counter[str] = field(default_factory=Counter)
    rendering: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def sound(self) -> SoundShape:
        """Rate, channels and length, once the recording has been read."""
        about = self.about or {}
        return SoundShape(about["rate"], about["channels"], about["frames"])

    def count_ready_samples(self) -> int:
        """Return how many samples per channel of the speech are ready."""
        return stored_samples(self.folder / SPEECH, self.sound) if self.about else 0

    def as_json(self) -> dict[str, Any]:
        """Return the state of the recording for the browser, as a JSON object."""
        duration = self.about["duration"] if self.about else 0.0
        share = min(1.0, self.done / duration) if duration else 0.0
        left = None
        if self.state == "denoising" and share > 0.05:  # earlier, the start-up time would spoil it
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
        """Return an error message without server paths, or `FAULT` after printing a traceback."""
        if outcome.details:
            print(outcome.details, file=sys.stderr, end="")
            return FAULT
        text = (outcome.error or "").replace(str(self.folder / SOURCE), self.name)
        return text.replace(f"{self.folder}/", "")


RENDERS = 4
"""Number of rendered downloads to keep per recording; those being read are kept in any case."""


class Recordings:
    """All recordings of a server."""

    store: Path  # Folder that contains a folder for each recording

    def __init__(self, store: Path, limits: Limits, jobs: int) -> None:
        self.store, self._limits = store, limits
        self._all: dict[str, ServerRecording] = {}
        # If there are several lanes, one guest may not use all of them.
        shared = limits.guests and jobs > 1
        self._long = Lanes(jobs, most=jobs - 1 if shared else jobs)
        self._short = Lanes(2 if limits.guests else 1, prepared=True, most=1)
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._leaving: set[asyncio.Task[None]] = set()

    def get(self, name: str) -> ServerRecording | None:
        """Return a recording, or None if no recording has this name."""
        return self._all.get(name)

    def create(self, name: str, preset: str, seed: int, guest: str = "") -> ServerRecording:
        """Return a new recording with its folder; raise an AlphaMFError if there are too many."""
        held, most = Counter(each.guest for each in self._all.values()), self._limits.jobs
        if self._limits.guests and len(self._all) >= most:
            self._make_room(held, held[guest])
        for own, allowed in ((len(self._all), most), (held[guest], self._limits.part(most))):
            if own >= allowed:
                raise AlphaMFError(
                    f"the server already holds {own} recordings; remove some of them"
                )
        key = secrets.token_hex(16)  # which cannot be guessed
        folder = self.store / key
        folder.mkdir(mode=0o700)
        self._all[key] = ServerRecording(key, folder, name, preset, seed, guest)
        return self._all[key]

    def _make_room(self, held: Counter[str], own: int) -> None:
        """Delete the oldest ended recording of whoever has most recordings, if over `own` + 1."""
        ended = [each for each in self._all.values() if each.state in ("done", "failed")]
        oldest = max(ended, key=lambda each: held[each.guest], default=None)
        if oldest and held[oldest.guest] > own + 1:
            self.remove(oldest)

    def begin(self, recording: ServerRecording) -> None:
        """Queue an uploaded recording: read it, denoise its beginning, then all of it."""
        task = ReadTask(recording.folder, self._limits.samples, self._limits.spare)
        self._put(self._short, recording, task, self._looked)

    def start_preview(self, recording: ServerRecording, start: int) -> None:
        """Queue up to ten seconds from the sample `start`, to be denoised before the rest."""
        recording.previewing = True
        spare = self._limits.spare
        task = PreviewTask(recording.folder, recording.sound, start, recording.seed, cores(), spare)
        self._put(self._short, recording, task, self._previewed, first=True)
        self._touch(recording)

    def start_echo(self, recording: ServerRecording) -> None:
        """Queue a denoised recording again, this time to remove its echo, too."""
        recording.echo = EchoRemoval()
        task = self._denoise_task(recording, echo_free=True)
        recording.echo.ticket = self._put(self._long, recording, task, self._echo_removed)
        self._touch(recording)

    async def stop_echo(self, recording: ServerRecording) -> None:
        """Stop removing the echo, or forget that it failed; return when no process works on it."""
        echo = recording.echo
        if echo is None or echo.ticket is None:
            return
        self._long.stop(echo.ticket)
        await asyncio.to_thread(echo.ticket.left.wait)
        if recording.echo is echo and echo.result is None:  # it may have ended meanwhile
            recording.echo = None
            self._touch(recording)

    @asynccontextmanager
    async def render(self, recording: ServerRecording, mix: Mix) -> AsyncIterator[Path]:
        """Write a download if needed, and yield its file, which is kept until the context ends."""
        numbers = f"{mix.dry!r}_{mix.echo!r}_{mix.loudness}".replace(".", "_")
        key = f"render-{numbers}{mix.ending or ''}"
        async with recording.rendering:
            if key not in recording.renders:
                lengths = tuple((recording.result or {})["segments"])
                sound, spare = recording.sound, self._limits.spare
                derived = mix.ending is None
                task = RenderTask(recording.folder, key, derived, mix, sound, lengths, spare)
                outcome = await self._awaited(recording, task)
                recording.renders[key] = Path(outcome.result)
            recording.readers[key] += 1
        try:
            yield recording.renders[key]
        finally:
            recording.readers[key] -= 1
            for old in list(recording.renders)[:-RENDERS]:
                if not recording.readers[old]:
                    recording.renders.pop(old).unlink(missing_ok=True)

    async def _awaited(self, recording: ServerRecording, task: Task) -> Outcome:
        """Return a task's outcome; raise an AlphaMFError if it fails or its recording is gone."""
        outcome: asyncio.Future[Outcome] = self._loop.create_future()

        def done(_: ServerRecording, found: Outcome) -> None:
            if not outcome.done():
                outcome.set_result(found)

        self._check_kept(recording)
        self._put(self._short, recording, task, done)
        while not outcome.done():
            await asyncio.wait([outcome], timeout=0.2)
            self._check_kept(recording)
        if outcome.result().error is not None:
            raise AlphaMFError(recording.error_message(outcome.result()))
        return outcome.result()

    def _check_kept(self, recording: ServerRecording) -> None:
        if recording.id not in self._all:
            raise AlphaMFError("the recording was removed")

    def remove(self, recording: ServerRecording) -> None:
        """Remove a recording; its tasks are stopped and its folder is deleted in the background."""
        if self._all.pop(recording.id, None) is None:
            return
        self._touch(recording)
        leaving = asyncio.create_task(self._delete(recording))
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)

    async def delete_expired(self) -> None:
        """Delete recordings older than `Limits.age` once a minute, until it is cancelled."""
        while True:
            await asyncio.sleep(60)
            oldest = elapsed_seconds() - self._limits.age
            for recording in [each for each in self._all.values() if each.created < oldest]:
                self.remove(recording)

    async def wait_for_change(self, seconds: float) -> None:
        """Wait until a recording changes, for at most `seconds`."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)

    async def close(self) -> None:
        """Stop all tasks and worker processes."""
        await asyncio.gather(*(asyncio.to_thread(each.close) for each in (self._long, self._short)))

    async def _delete(self, recording: ServerRecording) -> None:
        for ticket in recording.tickets:
            self._long.stop(ticket)
            self._short.stop(ticket)
            await asyncio.to_thread(ticket.left.wait)
        await asyncio.to_thread(shutil.rmtree, recording.folder, ignore_errors=True)

    def _put(
        self,
        lanes: Lanes,
        recording: ServerRecording,
        task: Task,
        done: Callable[[ServerRecording, Outcome], None],
        *,
        first: bool = False,
    ) -> Ticket:
        """Queue a task and return its ticket; callbacks of a removed recording are not called."""

        def call(function: Callable[..., None], *arguments: Any) -> None:
            if recording.id in self._all:
                function(recording, *arguments)

        def back(function: Callable[..., None], *arguments: Any) -> None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(call, function, *arguments)

        seconds = self._limits.short
        if lanes is self._long:
            rate, channels, frames = recording.sound
            seconds += self._limits.long * channels * frames / rate
        ticket = Ticket(
            task,
            progress=partial(back, self._progressed, task),
            done=partial(back, done),
            started=partial(back, self._started, task),
            guest=recording.guest,
            seconds=seconds,
        )
        recording.tickets = {each for each in recording.tickets if not each.left.is_set()}
        recording.tickets.add(ticket)
        lanes.put(ticket, first=first)
        return ticket

    def _touch(self, recording: ServerRecording) -> None:
        recording.version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    def _denoise_task(self, recording: ServerRecording, *, echo_free: bool = False) -> DenoiseTask:
        jobs = max(1, cores() // (1 + self._long.count_tasks()))
        preset, seed, spare = recording.preset, recording.seed, self._limits.spare
        return DenoiseTask(recording.folder, preset, seed, jobs, spare, echo_free)

    def _started(self, recording: ServerRecording, task: Task) -> None:
        if isinstance(task, DenoiseTask) and not task.echo_free:
            recording.state, recording.begun = "denoising", time.monotonic()
            self._touch(recording)

    def _progressed(
        self, recording: ServerRecording, task: Task, done: float, total: float
    ) -> None:
        if not (isinstance(task, DenoiseTask) and task.echo_free):
            recording.done = done
        elif recording.echo is not None:
            recording.echo.seconds = done
        self._touch(recording)

    def _fail(self, recording: ServerRecording, outcome: Outcome) -> None:
        recording.state, recording.error = "failed", recording.error_message(outcome)
        self._touch(recording)

    def _looked(self, recording: ServerRecording, outcome: Outcome) -> None:
        if outcome.error is not None:
            self._fail(recording, outcome)
            return
        recording.about, recording.state = outcome.result, "waiting"
        self.start_preview(recording, 0)

    def _previewed(self, recording: ServerRecording, outcome: Outcome) -> None:
        recording.previewing = False
        if outcome.error is None:
            if recording.preview not in (None, outcome.result):
                old = recording.folder / preview_name(recording.preview["start"])
                old.unlink(missing_ok=True)
            recording.preview = outcome.result
        if not recording.begun:  # after an error, too: the run reports it
            recording.begun = time.monotonic()
            self._put(self._long, recording, self._denoise_task(recording), self._finished)
        self._touch(recording)

    def _finished(self, recording: ServerRecording, outcome: Outcome) -> None:
        if outcome.error is not None:
            self._fail(recording, outcome)
            return
        recording.result, recording.state = outcome.result, "done"
        self._touch(recording)

    def _echo_removed(self, recording: ServerRecording, outcome: Outcome) -> None:
        if recording.echo is None:
            return
        if outcome.error is not None:
            recording.echo.error = recording.error_message(outcome)
        else:
            recording.echo.result = outcome.result
        self._touch(recording)


LONGEST = 120
"""Maximum number of characters of a recording's name, including its extension."""


def sanitize_name(text: str) -> str:
    """Return a browser's file name without folders, cleaned and shortened, with a nonempty stem."""
    name = text.replace("\\", "/").rsplit("/", 1)[-1]
    name = "".join(c for c in name if c.isprintable() and c not in '<>:"|?*').strip()
    stem, ending = os.path.splitext(name)
    stem = stem.strip(". ")[: LONGEST - len(ending[:16])]
    return f"{stem or 'recording'}{ending[:16]}"


def unnamed(name: str) -> str:
    """Return a neutral file name with the extension of `name`."""
    return f"recording{os.path.splitext(name)[1]}"


def result_name(name: str, format: str, ending: str | None = None) -> str:
    """Return the name of a result, as from ``alphamf denoise``, or with the extension `ending`."""
    derived = final_name(derived_name(InputFile(name, name), None), format)
    return derived if ending is None else os.path.splitext(derived)[0] + ending


def distinct_names(names: list[str]) -> list[str]:
    """Make names distinct in place, ignoring case, by a number in brackets; return them."""
    taken: set[str] = set()
    for k, name in enumerate(names):
        stem, ending = os.path.splitext(name)
        number = 2
        while names[k].casefold() in taken:
            names[k] = f"{stem} ({number}){ending}"
            number += 1
        taken.add(names[k].casefold())
    return names


def attachment(name: str) -> str:
    """Return a Content-Disposition value; browsers then save the file as `name` (RFC 6266)."""
    plain = "".join(c if c.isascii() and c not in '"\\' else "_" for c in name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
