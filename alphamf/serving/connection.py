"""Connections of the server, with a deadline for each step of the client."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from alphamf.serving.guard import ADMITTED
from alphamf.serving.limits import Limits


class _Connection(H11Protocol):
    """HTTP with deadlines; connections without a request of a user make room for new ones.

    The next request must arrive within `Limits.head` seconds after the connection or the last
    answer, and a part of an answer must leave within `Limits.idle` seconds. `upload.receive` has
    the deadlines of uploads. If there are `Limits.connections` connections, the oldest one without
    a request of a user (who has the token) is closed for a new one.
    """

    limits: Limits

    def __init__(self, **about: Any) -> None:
        super().__init__(**about)
        self._began = self.loop.time()
        self._request: asyncio.TimerHandle | None = None
        self._answer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # holds one part, and pauses until it has left
        self._make_room()
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        for timer in (self._request, self._answer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Wait for the next request, and for what is left of this one."""
        super().on_response_complete()
        self._await_request()

    def pause_writing(self) -> None:
        """Wait until a part of an answer has left, also the last one of a closing connection."""
        super().pause_writing()
        self._answer = self.loop.call_later(self.limits.idle, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on with the next part."""
        super().resume_writing()
        if self._answer is not None:
            self._answer.cancel()

    def _await_request(self) -> None:
        if self._request is not None:
            self._request.cancel()
        self._request = self.loop.call_later(self.limits.head, self._close_if_idle)

    def _close_if_idle(self) -> None:
        if self._is_idle():
            self.transport.close()

    def _is_idle(self) -> bool:
        """Return whether no request is being answered; the last answer may not be complete."""
        return self.cycle is None or self.cycle.response_complete

    def _serves_user(self) -> bool:
        return not self._is_idle() and ADMITTED in self.cycle.scope["state"]

    def _make_room(self) -> None:
        if len(self.connections) < self.limits.connections:
            return
        others = [
            each
            for each in self.connections
            if isinstance(each, _Connection) and each is not self and not each._serves_user()
        ]
        if others:
            oldest = min(others, key=lambda each: each._began)
            self.connections.discard(oldest)
            oldest.transport.abort()


def protocol(allowed: Limits) -> type[asyncio.Protocol]:
    """Return the protocol class of connections for some limits."""

    class Limited(_Connection):
        limits = allowed

    return Limited
