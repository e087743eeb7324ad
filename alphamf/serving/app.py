"""The web application: routes, static files, and error messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from alphamf.serving.downloads import Downloads
from alphamf.serving.limits import Limits
from alphamf.serving.query import GONE
from alphamf.serving.recordings import FAULT, Recordings
from alphamf.serving.routes import Api

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".flac": "audio/flac",
}


def build(store: Path, limits: Limits, jobs: int, ending: Callable[[], bool]) -> Starlette:
    """Return the web application; it denoises up to `jobs` files at a time in folder `store`."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        recordings = Recordings(store, limits, jobs)
        app.router.routes.extend(_routes(recordings, limits, ending))
        cleaning = asyncio.create_task(recordings.delete_expired())
        try:
            yield
        finally:  # also if an interrupt ends the event loop, which cancels this task
            cleaning.cancel()
            await recordings.close()

    pages = [Route(path, partial(_page, answer=answer)) for path, answer in _static().items()]
    return Starlette(
        routes=pages,
        lifespan=lifespan,
        exception_handlers=dict.fromkeys((HTTPException, FileNotFoundError, Exception), _refused),
    )


def _routes(recordings: Recordings, limits: Limits, ending: Callable[[], bool]) -> list[Route]:
    api, downloads = Api(recordings, limits, ending), Downloads(recordings, limits.jobs)
    one = "/api/recordings/{id}"
    return [
        Route("/api/server", api.server),
        Route("/api/recordings", api.create, methods=["POST"]),
        Route(one, api.show),
        Route(one, api.remove, methods=["DELETE"]),
        Route(f"{one}/preview", api.preview, methods=["POST"]),
        Route(f"{one}/echo", api.start_echo, methods=["POST"]),
        Route(f"{one}/echo", api.stop_echo, methods=["DELETE"]),
        Route(f"{one}/sound", downloads.sound),
        Route(f"{one}/picture", api.picture),
        Route(f"{one}/result", downloads.result),
        Route("/api/archive", downloads.archive),
        Route("/api/events", api.events),
    ]


def _static() -> dict[str, tuple[bytes, str]]:
    """Return content and media type of each static file by its URL path; requests open no files."""
    folder = files("alphamf.serving")
    found = {f"/{each.name}": each for each in folder.joinpath("static").iterdir()}
    found["/"] = found.pop("/index.html")
    found["/api/openapi.json"] = folder / "openapi.json"
    kinds = {path: TYPES.get(Path(each.name).suffix) for path, each in found.items()}
    return {path: (found[path].read_bytes(), kind) for path, kind in kinds.items() if kind}


async def _page(request: Request, answer: tuple[bytes, str]) -> Response:
    data, kind = answer
    return Response(data, media_type=kind)


async def _refused(request: Request, error: Exception) -> Response:
    """Return the response for an error: one sentence as JSON; 404 if a recording was removed."""
    if isinstance(error, FileNotFoundError):
        error = HTTPException(404, GONE)
    elif not isinstance(error, HTTPException):
        error = HTTPException(500, FAULT)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)
