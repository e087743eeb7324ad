"""Parse requests: the recording in the path, the numbers in the query."""

from __future__ import annotations

from typing import TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request

from alphamf.serving.recordings import Recordings, ServerRecording

GONE = "this recording does not exist: it was removed or has expired"

Number = TypeVar("Number", int, float)


def find(recordings: Recordings, request: Request) -> ServerRecording:
    """Return the recording named in the path, or raise a 404 error."""
    recording = recordings.get(request.path_params["id"])
    if recording is None:
        raise HTTPException(404, GONE)
    return recording


def find_decoded(recordings: Recordings, request: Request) -> ServerRecording:
    """Return the recording named in the path; raise a 404 error, or a 409 one if not yet read."""
    recording = find(recordings, request)
    if recording.about is None:
        raise HTTPException(409, "the recording has not been read yet")
    return recording


def number(request: Request, name: str, kind: type[Number], least: Number, most: Number) -> Number:
    """Return a number of the query, or `least` if it is missing; raise a 400 error if invalid."""
    return check_number(name, request.query_params.get(name, str(least)), kind, least, most)


def check_number(name: str, text: str, kind: type[Number], least: Number, most: Number) -> Number:
    """Return `text` as a number from `least` to `most`, or raise a 400 error."""
    try:
        value = kind(text)
    except ValueError:
        pass
    else:
        if least <= value <= most:
            return value
    raise HTTPException(400, f"{name} must be a number from {least} to {most}")
