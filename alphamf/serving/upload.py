"""Receive an upload into a file within the limits, or reject it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request

from alphamf.serving.limits import MB, Limits, has_room
from alphamf.tools.stopwatch import STEP, Stopwatch

FULL = "the server's disk does not have enough free space for this file"

KINDS = ("audio/", "video/", "application/octet-stream", "application/ogg")
"""Accepted content types; a request without one is accepted, too."""


def check(request: Request, limits: Limits, store: Path) -> None:
    """Check the headers of an upload, and raise an error if it is not acceptable."""
    kinds = request.headers.getlist("content-type")
    if not all(kind.lower().startswith(KINDS) for kind in kinds if kind):
        raise HTTPException(
            415, "send the file as the request body, with the type application/octet-stream"
        )
    size = int(request.headers.get("content-length", "0"))
    check_size(size, limits)
    if not has_room(store, size, limits.spare):
        raise HTTPException(507, FULL)


def check_size(size: int, limits: Limits) -> None:
    """Raise an error if an upload exceeds the maximum size."""
    if size > limits.upload:
        raise HTTPException(
            413,
            f"the file is larger than {limits.upload / MB:g} MB; start the server with a larger "
            "`max_size`, or use `alphamf denoise`",
        )


async def receive(request: Request, path: Path, limits: Limits) -> None:
    """Write the body of a request to a file."""
    watch, before, size = Stopwatch(), 0, 0
    stream = request.stream()
    try:
        with path.open("xb") as file:
            while (chunk := await _next(stream, watch, limits.idle)) is not None:
                size += len(chunk)
                check_size(size, limits)
                if not has_room(path.parent, len(chunk), limits.spare):
                    raise HTTPException(507, FULL)
                lasted = watch.seconds()
                if lasted > limits.idle:
                    if size - before < limits.least_rate * lasted:
                        raise HTTPException(408, "the upload is too slow")
                    watch, before = Stopwatch(), size
                file.write(chunk)
    except OSError as error:
        raise HTTPException(507, FULL) from error
    if not size:
        raise HTTPException(400, "the file is empty (0 bytes)")


async def _next(stream: AsyncIterator[bytes], watch: Stopwatch, idle: float) -> bytes | None:
    """Return the next part of a body, or None at its end; check `watch` while waiting."""
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
