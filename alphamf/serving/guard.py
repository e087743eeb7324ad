"""Who may ask: the Host, the Origin and the token of every request, and the headers of answers."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any
from urllib.parse import urlsplit

Message = MutableMapping[str, Any]
App = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]

LOOPBACK = ("127.0.0.1", "localhost", "::1")

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)

HEADERS = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "microphone=(self), camera=(), geolocation=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}


class Guard:
    """An ASGI application that lets through to another what may be asked.

    The page and its API lie below the token, ``/TOKEN/``, so that links, downloads and event
    streams carry it without cookies. ``/health`` needs none. ``/open/CODE`` leads to the page once:
    the command opens the browser there, as other users may see the arguments of a process.

    Parameters
    ----------
    app
        The other application; the token is taken off the paths that it sees.
    token
        The token.
    names
        Host names that this server answers to, beside those of the loopback.
    """

    def __init__(self, app: App, token: str, names: Collection[str] = ()) -> None:
        self._app, self._token = app, token
        self._names = {*LOOPBACK, *(name.lower() for name in names)}
        self.once: str | None = secrets.token_urlsafe(16)

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *(
                        (name.encode(), value.encode())
                        for name, value in HEADERS.items()
                        if name.encode() not in own
                    ),
                ]
            await send(message)

        headers: dict[bytes, bytes] = dict(scope["headers"])
        if (refusal := self._refusal(scope, headers)) is not None:
            await _answer(guarded, *refusal)
            return
        path = scope["path"]
        if path == "/health":
            await _answer(guarded, 200, "ok")
        elif self.once is not None and _same(path, f"/open/{self.once}"):
            self.once = None
            await _answer(guarded, 303, "", {"location": f"/{self._token}/"})
        else:
            first, *rest = path.removeprefix("/").split("/", 1)
            if not _same(first, self._token):
                await _answer(guarded, 404, "nothing is here: use the address that alphamf printed")
            elif not rest:
                await _answer(guarded, 308, "", {"location": f"/{self._token}/"})
            else:
                path = f"/{rest[0]}"
                inner = {**scope, "path": path, "raw_path": path.encode()}
                await self._app(inner, receive, guarded)

    def _refusal(self, scope: Message, headers: dict[bytes, bytes]) -> tuple[int, str] | None:
        """Return status and sentence for a request from elsewhere."""
        host = headers.get(b"host", b"").decode("latin-1")
        if sum(name == b"host" for name, _ in scope["headers"]) != 1 or not self._known(host):
            return 421, "this server does not answer to that name"
        origin = headers.get(b"origin")
        if origin is not None and urlsplit(origin.decode("latin-1")).netloc != host:
            return 403, "requests from other sites are refused"
        site = headers.get(b"sec-fetch-site", b"none")
        navigates = headers.get(b"sec-fetch-mode") == b"navigate" and scope["method"] == "GET"
        if site not in (b"same-origin", b"none") and not (
            navigates and "/api/" not in scope["path"]
        ):
            return 403, "requests from other sites are refused"
        return None

    def _known(self, host: str) -> bool:
        try:
            return urlsplit(f"//{host}").hostname in self._names and "@" not in host
        except ValueError:
            return False


def _same(given: str, right: str) -> bool:
    return secrets.compare_digest(given.encode(errors="replace"), right.encode())


async def _answer(
    send: Callable[[Message], Awaitable[None]],
    status: int,
    text: str,
    headers: dict[str, str] | None = None,
) -> None:
    found = {"content-type": "text/plain; charset=utf-8", **(headers or {})}
    body = text.encode()
    found["content-length"] = str(len(body))
    pairs = [(name.encode(), value.encode()) for name, value in found.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
