"""Run the server: open a socket, start the application, and clean up at the end."""

import asyncio
import html
import os
import secrets
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from alphamf.errors import AlphaMFError
from alphamf.serving.app import build
from alphamf.serving.guard import ADMITTED, LOOPBACK, App, Guard, Turnstile
from alphamf.serving.limits import Limits
from alphamf.serving.render import PART
from alphamf.tools.files import system_errors, temporary_folder
from alphamf.tools.stopping import leave_if_stopped


class _Connection(H11Protocol):
    """HTTP connection with deadlines, which may be closed for a new one if it serves no user.

    The next request must arrive within `Limits.head` seconds after the connection or the last
    answer, and a part of an answer must be sent within `Limits.idle` seconds. `routes.receive` has
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
        """Make room for a new connection, and limit the time until its first request."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # holds one part, and pauses until it has left
        self._make_room()
        self._await_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the time limits of a connection that was closed."""
        for timer in (self._request, self._answer):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Limit the time until the next request, and for the rest of this one."""
        super().on_response_complete()
        self._await_request()

    def pause_writing(self) -> None:
        """Limit the time until a part of an answer is sent, also if the connection is closing."""
        super().pause_writing()
        self._answer = self.loop.call_later(self.limits.idle, self.transport.abort)

    def resume_writing(self) -> None:
        """Cancel the time limit of a part that was sent, and continue with the next part."""
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
        """Return whether no request is being processed; the last answer may still be on its way."""
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
    """Return the class of connections with the given limits, for uvicorn."""

    class Limited(_Connection):
        limits = allowed

    return Limited


TOKEN = "ALPHAMF_TOKEN"
"""Environment variable with the token, required if a server for other machines is not public."""

ONE = 0.5
"""Time within which several signals count as one, in seconds."""

SHORTEST = 16
"""Minimum number of characters of a token from the environment."""

_PAGE = """<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={address}">
<title>alphamf</title>
<p><a href="{address}">Open the page of alphamf</a></p>
"""


@dataclass(frozen=True)
class Serving:
    """Settings of a server: its address, host names, parallel jobs and limits."""

    # host, port: address to listen on; port 0 for any free one.
    host: str = "127.0.0.1"
    port: int = 0
    names: Sequence[str] = ()  # Host names of the server for browsers, besides `LOOPBACK`
    jobs: int = 1  # Maximum number of recordings that are denoised at a time
    limits: Limits = field(default_factory=Limits)  # Limits of the server
    public: bool = False  # Whether everybody is let in without a token


def serve(serving: Serving, ready: Callable[[str, Path], None]) -> None:
    """Serve until a signal comes; call `ready` with the page's address and a file that opens it."""
    token = _token(serving)
    with temporary_folder("alphamf-serve-") as store, _listen(serving) as listener:
        limits = serving.limits
        app: App = build(store, limits, serving.jobs, lambda: server.should_exit)
        if limits.guests:
            app = Turnstile(app, limits.connections // 4)
        guard = Guard(app, token, serving.names)
        config = uvicorn.Config(
            guard,
            http=protocol(limits),
            ws="none",
            lifespan="on",
            log_config=None,
            log_level="error",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=limits.connections,
            timeout_graceful_shutdown=5,
        )
        server = _Server(config)
        host = serving.names[0] if serving.names else serving.host
        place = f"http://{_bracketed(host)}:{listener.getsockname()[1]}"
        # More people read the logs of a server than may know its token.
        secret = token if serving.host in LOOPBACK else f"${TOKEN}"
        entrance = write_entrance(store, f"{place}/open/{guard.once}")
        page = f"{place}/" if serving.public else f"{place}/{secret}/"
        server.on_start = lambda: ready(page, entrance)
        _end_with_terminal()
        server.run([listener])
        if server.caught is not None:
            signal.raise_signal(server.caught)
        leave_if_stopped()  # if the exception of a signal was lost in the event loop


def write_entrance(folder: Path, address: str) -> Path:
    """Write a private file that redirects to a secret address, and return the file's path."""
    path = folder / "open.html"
    with system_errors("the file that opens the browser cannot be written"):
        # O_EXCL refuses whatever has that name, a link too.
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(file, "w", encoding="utf-8") as page:
            page.write(_PAGE.format(address=html.escape(address)))
    return path


def _end_with_terminal() -> None:
    """End the server when its terminal window is closed, in the same way as SIGTERM."""
    hangup = getattr(signal, "SIGHUP", None)
    if hangup is not None and signal.getsignal(hangup) is signal.SIG_DFL:  # and not nohup
        signal.signal(hangup, lambda *_: signal.raise_signal(signal.SIGTERM))


def _token(serving: Serving) -> str:
    """Return the token from the environment, a new one, or "" if public; refuse unsafe settings."""
    if serving.public:
        _check_named(serving)
        return ""
    token = os.environ.get(TOKEN, "")
    if not token and serving.host in LOOPBACK:
        return secrets.token_urlsafe(24)
    if not token:
        raise AlphaMFError(
            f"`host` {serving.host} makes the server reachable from other machines; set the "
            f"environment variable {TOKEN} to a secret token"
        )
    if len(token) < SHORTEST or not all(
        c.isascii() and (c.isalnum() or c in "-_.~") for c in token
    ):
        raise AlphaMFError(
            f"{TOKEN} must have at least {SHORTEST} characters, all of them letters, digits "
            "or -_.~ because it is part of the address"
        )
    _check_named(serving)
    return token


def _check_named(serving: Serving) -> None:
    if serving.host not in LOOPBACK and not serving.names:
        raise AlphaMFError(
            f"`host` {serving.host} needs `name`, the host name under which browsers reach it"
        )


def _listen(serving: Serving) -> socket.socket:
    family = socket.AF_INET6 if ":" in serving.host else socket.AF_INET
    with system_errors(f"cannot listen on {_bracketed(serving.host)}:{serving.port}"):
        listener = socket.create_server((serving.host, serving.port), family=family)
    if (lowest := getattr(socket, "TCP_NOTSENT_LOWAT", None)) is not None:
        # Otherwise the system holds megabytes of an answer, and says late that some were read.
        listener.setsockopt(socket.IPPROTO_TCP, lowest, PART)  # its connections inherit it
    return listener


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


class _Server(uvicorn.Server):
    """A uvicorn server that calls back when it listens, and shuts down cleanly on a signal.

    uvicorn would raise the signal again within the event loop, which would cancel its tasks.
    """

    on_start: Callable[[], None]
    caught: int | None = None

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Let the first signal end the server after its requests, and a second one immediately."""
        asked = [0.0]

        def end(number: int, _: object) -> None:
            # `tools.stopping` sends the first one once more, at once.
            now = time.monotonic()
            self.force_exit = self.should_exit and now - asked[0] > ONE
            if not self.should_exit:
                asked[0] = now
            self.should_exit = True
            self.caught = number

        before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the server, then call `on_start`."""
        await super().startup(sockets)
        self.on_start()
