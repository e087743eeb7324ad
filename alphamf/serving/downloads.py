"""Downloads, sent in parts: samples for the page, and results as one file or in a zip."""

from __future__ import annotations

import zipfile
from collections.abc import Generator
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from alphamf.audio.formats import by_suffix
from alphamf.errors import AlphaMFError
from alphamf.serving.query import check_number, find, find_decoded, number
from alphamf.serving.recordings import (
    Recordings,
    ServerRecording,
    attachment,
    distinct_names,
    result_name,
)
from alphamf.serving.render import (
    ECHO_FREE,
    PART,
    SAMPLE,
    SOUND,
    SPEECH,
    Extract,
    Mix,
    SoundShape,
    parts,
    preview_name,
)

LONGEST_SOUND = 20
"""Maximum number of seconds of sound in one answer."""

MOST_SAMPLES = 1 << 25
"""Maximum number of samples of each sound in one answer, over all channels."""


class Download(NamedTuple):
    """A file to download, and its name for the user."""

    name: str
    path: Path


@dataclass
class Downloads:
    """The endpoints for downloads: samples, results and zip archives of results."""

    recordings: Recordings  # Recordings of the server
    most: int  # Maximum number of recordings in a zip

    async def sound(self, request: Request) -> _Held:
        """``GET /api/recordings/ID/sound``: up to ``frames`` samples per channel from ``start``.

        Send float32 input, speech if ready, and if ``echo=1`` echo-free speech, channel by channel.
        """
        recording = find_decoded(self.recordings, request)
        rate, channels, frames = recording.sound
        start = number(request, "start", int, 0, frames)
        most = min(LONGEST_SOUND * rate, MOST_SAMPLES // channels)
        count = min(number(request, "frames", int, 1, most), frames - start)
        kind, sources = _sources(recording, start, count)
        if number(request, "echo", int, 0, 1):
            _check_echo_free(recording)
            sources.append((recording.folder / ECHO_FREE / SPEECH, recording.sound, start))
        size = SAMPLE * channels * count * len(sources)
        headers = {"x-speech": kind, "content-length": str(size)}
        async with AsyncExitStack() as stack:
            extracts = [
                Extract(stack.enter_context(path.open("rb")), held, first)
                for path, held, first in sources
            ]
            body = stack.enter_context(closing(parts(extracts, count)))
            answer = StreamingResponse(body, 200, headers, "application/octet-stream")
            return _Held(answer, stack.pop_all())

    async def result(self, request: Request) -> _Held:
        """``GET /api/recordings/ID/result``: the denoised file, changed as the query asks."""
        recording = find(self.recordings, request)
        (mix,) = _mixes(request, 1)
        async with AsyncExitStack() as stack:
            name, path = await self._file(recording, mix, stack)
            headers = {"content-disposition": attachment(name)}
            kind, found = "application/octet-stream", path.stat()
            answer = FileResponse(path, media_type=kind, headers=headers, stat_result=found)
            return _Held(answer, stack.pop_all())

    async def archive(self, request: Request) -> _Held:
        """``GET /api/archive?id=...``: results in a zip archive, each changed as the query asks."""
        wanted = request.query_params.getlist("id")
        if not 0 < len(wanted) <= self.most:
            raise HTTPException(400, f"give 1 to {self.most} recordings as id=")
        mixes = _mixes(request, len(wanted))
        files = []
        async with AsyncExitStack() as stack:
            for key, mix in zip(wanted, mixes, strict=True):
                recording = self.recordings.get(key)
                if recording is None:
                    raise HTTPException(404, "one of these recordings was removed or has expired")
                files.append(await self._file(recording, mix, stack))
            titles = distinct_names([each.name for each in files])
            members = list(zip(titles, [each.path for each in files], strict=True))
            body = stack.enter_context(closing(_zipped(members)))
            headers = {"content-disposition": attachment("alphamf.zip")}
            answer = StreamingResponse(body, media_type="application/zip", headers=headers)
            return _Held(answer, stack.pop_all())

    async def _file(self, recording: ServerRecording, mix: Mix, stack: AsyncExitStack) -> Download:
        """Return a result's name and file; the file is written first if it does not exist yet.

        The file is kept until `stack` is closed. An HTTPException says why there is no file.
        """
        report, about = recording.result, recording.about
        if report is None or about is None:
            raise HTTPException(409, "the recording is not finished yet")
        own = str(about["format"])
        if mix.ending and by_suffix(mix.ending, own) is None:
            raise HTTPException(
                400, "format must be the extension of an audio format, such as flac"
            )
        name = result_name(recording.name, own, mix.ending)
        if mix.echo:
            report = _check_echo_free(recording)
        if mix in (Mix(), Mix(echo=1.0)):
            return Download(name, Path(report["output"]))
        try:
            render = self.recordings.render(recording, mix)
            return Download(name, await stack.enter_async_context(render))
        except AlphaMFError as error:
            raise HTTPException(422, str(error)) from error


def _sources(
    recording: ServerRecording, start: int, count: int
) -> tuple[str, list[tuple[Path, SoundShape, int]]]:
    """Return the ready speech (whole, preview, none), and each sound's file, shape and start."""
    whole, folder, ahead = recording.sound, recording.folder, recording.preview
    sources = [(folder / SOUND, whole, start)]
    if start + count <= recording.count_ready_samples():
        return "whole", [*sources, (folder / SPEECH, whole, start)]
    if ahead is not None:
        first, frames = ahead["start"], ahead["frames"]
        if first <= start and start + count <= first + frames:
            held = whole._replace(frames=frames)
            return "preview", [*sources, (folder / preview_name(first), held, start - first)]
    return "none", sources


def _check_echo_free(recording: ServerRecording) -> dict[str, Any]:
    """Return the report of the run that removed the echo, or raise a 409 error."""
    if recording.echo is None or recording.echo.result is None:
        raise HTTPException(409, "the echo of this recording is not removed yet")
    return recording.echo.result


def _mixes(request: Request, count: int) -> list[Mix]:
    """Return the mix of each download; the query has each value at most once, or `count` times."""

    def each(name: str, otherwise: str) -> list[str]:
        given = request.query_params.getlist(name) or [otherwise]
        if len(given) not in (1, count):
            raise HTTPException(400, f"give {name}= not at all, once, or once for each recording")
        return given * (count // len(given))

    return [
        Mix(
            check_number("dry", dry, float, 0, 1),
            None if kind == "input" else f".{kind.lower()}",
            None if loudness == "input" else check_number("loudness", loudness, float, -70, 0),
            check_number("echo", echo, float, 0, 1),
        )
        for dry, kind, loudness, echo in zip(
            each("dry", "0"),
            each("format", "input"),
            each("loudness", "input"),
            each("echo", "0"),
            strict=True,
        )
    ]


@dataclass
class _Held:
    """A response, with an exit stack that keeps its files until it has been sent or has failed."""

    response: Response
    files: AsyncExitStack

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self.files:
            await self.response(scope, receive, send)


class _Pipe:
    """A file in memory that can only be written; `taken` returns what was written."""

    def __init__(self) -> None:
        self.held = bytearray()

    def write(self, data: bytes) -> int:
        self.held += data
        return len(data)

    def flush(self) -> None: ...

    def taken(self) -> bytes:
        """Return the bytes that were written since the last call."""
        data, self.held = bytes(self.held), bytearray()
        return data


def _zipped(members: list[tuple[str, Path]]) -> Generator[bytes]:
    """Yield an uncompressed zip archive in parts; compression would hardly make audio smaller."""
    pipe: Any = _Pipe()
    with zipfile.ZipFile(pipe, "w") as archive:
        for name, path in members:
            info = zipfile.ZipInfo.from_file(path, name)
            with path.open("rb") as file, archive.open(info, "w", force_zip64=True) as member:
                while data := file.read(PART):
                    member.write(data)
                    yield pipe.taken()
    yield pipe.taken()
