"""The HTTP API: uploads, states and pictures of recordings; `downloads` has the rest."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from alphamf.audio.formats import SUFFIXES
from alphamf.denoising.settings import PRESETS
from alphamf.errors import AlphaMFError
from alphamf.serving import render
from alphamf.serving.guard import guest
from alphamf.serving.limits import MB, Limits, has_room
from alphamf.serving.picture import BAND_RECORD, RECORD
from alphamf.serving.query import find, find_decoded, number
from alphamf.serving.recordings import Recordings, sanitize_name, unnamed
from alphamf.tools.stopping import STEP, Stopwatch, elapsed_seconds

FULL = 507, "the server's disk does not have enough free space for this file", {"retry-after": "2"}

KINDS = ("audio/", "video/", "application/octet-stream", "application/ogg")
"""Beginnings of the accepted content types; a request without a type is accepted, too."""


def check(request: Request, limits: Limits, store: Path) -> None:
    """Raise an error if an upload's type (415) or size (413) is refused or the disk full (507)."""
    kinds = request.headers.getlist("content-type")
    if not all(kind.lower().startswith(KINDS) for kind in kinds if kind):
        raise HTTPException(
            415, "send the file as the request body, with the type application/octet-stream"
        )
    size = int(request.headers.get("content-length", "0"))
    check_size(size, limits)
    if not has_room(store, size, limits.spare):
        raise HTTPException(*FULL)


def check_size(size: int, limits: Limits) -> None:
    """Raise a 413 error if an upload of `size` bytes is too large."""
    if size > limits.upload:
        raise HTTPException(
            413,
            f"the file is larger than {limits.upload / MB:g} MB; start the server with a larger "
            "`max_size`, or use `alphamf denoise`",
        )


async def receive(request: Request, path: Path, limits: Limits) -> None:
    """Write a request's body to a new file; an HTTPException says why it cannot be accepted."""
    watch, before, size = Stopwatch(), 0, 0
    stream = request.stream()
    try:
        with path.open("xb") as file:
            while (chunk := await _next(stream, watch, limits.idle)) is not None:
                size += len(chunk)
                check_size(size, limits)
                if not has_room(path.parent, len(chunk), limits.spare):
                    raise HTTPException(*FULL)
                lasted = watch.seconds()
                if lasted > limits.idle:
                    if size - before < limits.least_rate * lasted:
                        raise HTTPException(408, "the upload is too slow")
                    watch, before = Stopwatch(), size
                file.write(chunk)
    except OSError as error:
        raise HTTPException(*FULL) from error
    if not size:
        raise HTTPException(400, "the file is empty (0 bytes)")


async def _next(stream: AsyncIterator[bytes], watch: Stopwatch, idle: float) -> bytes | None:
    """Return the next part of a body, None at its end; raise a 408 error after `idle` seconds."""
    part = asyncio.ensure_future(anext(stream, None))
    begun = watch.seconds()
    try:
        while not part.done():
            if watch.seconds() - begun > idle:
                raise HTTPException(408, "the upload stalled")
            await asyncio.wait([part], timeout=min(idle, STEP / 2))
        return part.result()
    finally:
        part.cancel()


INTERVAL = 0.15
"""Time to wait after each state event of a stream, in seconds."""

HEARTBEAT = 10.0
"""Longest silence of an event stream, in seconds."""

COMMON = ("WAV", "MP3", "M4A", "FLAC", "MP4", "OGG", "OPUS")
"""Formats that the page names first."""

DOWNLOADS = ("wav", "flac", "mp3", "m4a")
"""File extensions of the formats that the page offers for results, besides the input's."""

PICTURES = {
    "input": (render.INPUT_PICTURE, RECORD),
    "speech": (render.SPEECH_PICTURE, RECORD),
    "band": (render.BAND, BAND_RECORD),
}


@dataclass
class Api:
    """The endpoints for uploads, states and pictures of recordings."""

    # recordings, limits: recordings and limits of the server.
    recordings: Recordings
    limits: Limits
    # Returns whether the server is about to stop, so that event streams have to end.
    ending: Callable[[], bool]
    uploads: Counter[str] = field(default_factory=Counter)
    begun: list[tuple[float, str]] = field(default_factory=list)

    async def create(self, request: Request) -> Response:
        """``POST /api/recordings``: receive a file and start denoising it."""
        preset = request.query_params.get("preset", "fast")
        if preset not in PRESETS:
            raise HTTPException(400, f"preset must be one of {', '.join(PRESETS)}")
        seed = number(request, "seed", int, 0, 2**63 - 1)
        check(request, self.limits, self.recordings.store)
        who = guest(request.scope) if self.limits.guests else ""
        most = self.limits.uploads
        if self.uploads.total() >= most or self.uploads[who] >= self.limits.part(most):
            raise HTTPException(
                503, "too many uploads at the same time; try again later", {"retry-after": "2"}
            )
        self._check_rate(who)
        name = sanitize_name(request.query_params.get("name", ""))
        if not self.limits.named:
            name = unnamed(name)
        try:
            recording = self.recordings.create(name, preset, seed, who)
        except AlphaMFError as error:
            raise HTTPException(429, str(error)) from error
        except OSError as error:
            raise HTTPException(*FULL) from error
        self.uploads[who] += 1
        try:
            await receive(request, recording.folder / render.SOURCE, self.limits)
        except (HTTPException, ClientDisconnect, asyncio.CancelledError) as error:
            self.recordings.remove(recording)
            if isinstance(error, ClientDisconnect):
                raise HTTPException(400, "the upload was interrupted") from error
            raise
        finally:
            self.uploads[who] -= 1
        self.recordings.begin(recording)
        address = f"api/recordings/{recording.id}"
        return JSONResponse(recording.as_json(), 201, {"location": address})

    def _check_rate(self, who: str) -> None:
        """Count an upload, or raise a 429 error if its visitor began too many in a minute."""
        now = elapsed_seconds()
        self.begun = [each for each in self.begun if each[0] > now - 60]
        own = [began for began, by in self.begun if by == who]
        if len(own) >= self.limits.per_minute:
            wait = {"retry-after": str(math.ceil(own[0] + 60 - now))}
            raise HTTPException(429, "too many uploads; try again in a minute", wait)
        self.begun.append((now, who))

    async def server(self, request: Request) -> Response:
        """``GET /api/server``: version, formats and limits."""
        return JSONResponse(
            {
                "version": version("alphamf"),
                "common": COMMON,
                "suffixes": sorted(SUFFIXES),
                "downloads": DOWNLOADS,
                "presets": list(PRESETS),
                "max_upload": self.limits.upload,
                "max_minutes": self.limits.samples // (2 * 48_000 * 60),
                "kept_minutes": round(self.limits.age / 60),
                "named": self.limits.named,
            }
        )

    async def show(self, request: Request) -> Response:
        """``GET /api/recordings/ID``: the state of a recording."""
        return JSONResponse(find(self.recordings, request).as_json())

    async def remove(self, request: Request) -> Response:
        """``DELETE /api/recordings/ID``: stop the recording's tasks, and delete its files."""
        self.recordings.remove(find(self.recordings, request))
        return Response(status_code=204)

    async def events(self, request: Request) -> Response:
        """``GET /api/events?id=...``: the states of recordings, sent whenever they change."""
        wanted = request.query_params.getlist("id")
        if not 0 < len(wanted) <= self.limits.jobs:
            raise HTTPException(400, "give one or more recordings as id=")
        return StreamingResponse(self._states(wanted), media_type="text/event-stream")

    async def preview(self, request: Request) -> Response:
        """``POST /api/recordings/ID/preview``: denoise up to ten seconds from second ``start``."""
        recording = find_decoded(self.recordings, request)
        if recording.previewing or recording.state not in ("waiting", "denoising"):
            raise HTTPException(409, "a preview already exists, or is not needed")
        rate, _, frames = recording.sound
        second = number(request, "start", int, 0, (frames - 1) // rate)
        self.recordings.start_preview(recording, second * rate)
        return JSONResponse(recording.as_json(), 202)

    async def start_echo(self, request: Request) -> Response:
        """``POST /api/recordings/ID/echo``: denoise once more, and remove the echo, too."""
        recording = find(self.recordings, request)
        if recording.state != "done":
            raise HTTPException(409, "the recording is not finished yet")
        if recording.echo is not None and recording.echo.error is None:
            raise HTTPException(409, "the echo is already removed, or is being removed")
        self.recordings.start_echo(recording)
        return JSONResponse(recording.as_json(), 202)

    async def stop_echo(self, request: Request) -> Response:
        """``DELETE /api/recordings/ID/echo``: stop removing the echo, unless it is done."""
        recording = find(self.recordings, request)
        await self.recordings.stop_echo(recording)
        return JSONResponse(recording.as_json())

    async def picture(self, request: Request) -> Response:
        """``GET /api/recordings/ID/picture``: columns ``first`` and later of the picture ``of``."""
        recording = find_decoded(self.recordings, request)
        of = request.query_params.get("of", "")
        if of not in PICTURES:
            raise HTTPException(400, f"of must be one of {', '.join(PICTURES)}")
        name, record = PICTURES[of]
        first = number(request, "first", int, 0, 10**6)
        path = recording.folder / name
        data = path.read_bytes()[first * record :] if path.exists() else b""
        whole = len(data) // record * record
        return Response(data[:whole], 200, None, "application/octet-stream")

    async def _states(self, wanted: list[str]) -> AsyncIterator[str]:
        """Yield events about the wanted recordings until all are removed or the server stops."""
        sent: dict[str, int] = {}
        silent = 0.0
        while not self.ending():
            left = [key for key in wanted if key not in sent or sent[key] >= 0]
            for key in left:
                recording = self.recordings.get(key)
                if recording is None:
                    sent[key] = -1
                    yield _event("removed", {"id": key})
                elif sent.get(key) != recording.version:
                    sent[key] = recording.version
                    yield _event("state", recording.as_json())
                    silent = 0.0
                    await asyncio.sleep(INTERVAL)
            if all(sent[key] < 0 for key in wanted):
                return
            await self.recordings.wait_for_change(0.5)
            silent += 0.5
            if silent >= HEARTBEAT:
                silent = 0.0
                yield ": still here\n\n"


def _event(kind: str, data: object) -> str:
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n"
