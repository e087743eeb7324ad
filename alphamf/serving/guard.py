"""Access control: checks of Host, Origin and token, and a limit of requests per visitor."""

import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from typing import Any
from urllib.parse import urlsplit

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

ADMITTED = "admitted"
"""Key that is set in the state of a request that may use the application."""

LOOPBACK = ("127.0.0.1", "localhost", "::1")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'"
)

UNFRAMED = "; frame-ancestors 'none'"
"""Text added to `POLICY` if there is a token: no page may then show this one in a frame."""

HEADERS = {
    "content-security-policy": POLICY + UNFRAMED,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "microphone=(self), camera=(), geolocation=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}


class Guard:
    """ASGI middleware that passes only allowed requests to the application.

    If there is a token, the page and its API are below ``/TOKEN/``, so that links, downloads and
    event streams contain it without cookies. ``/health`` needs no token. ``/open/CODE`` redirects
    to the page once; a private file that ``alphamf serve`` opens in the browser leads there.
    """

    def __init__(self, app: App, token: str, names: Collection[str] = ()) -> None:
        self._app, self._token = app, token
        self._names = {*LOOPBACK, *(name.lower() for name in names)}
        self.once: str | None = secrets.token_urlsafe(16)
        self._headers = HEADERS if token else {**HEADERS, "content-security-policy": POLICY}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Check a request, and answer it or pass it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in message["headers"]}
                added = ((name.encode(), value.encode()) for name, value in self._headers.items())
                message["headers"] = [
                    *message["headers"],
                    *(header for header in added if header[0] not in own),
                ]
            await send(message)

        if (refusal := self._refusal(scope)) is not None:
            await answer(guarded, *refusal)
            return
        path = scope["path"]
        if path == "/health":
            await answer(guarded, 200, "ok")
        elif not self._token:
            scope["state"][ADMITTED] = True
            await self._app(scope, receive, guarded)
        elif self.once is not None and _same(path, f"/open/{self.once}"):
            self.once = None
            await answer(guarded, 303, "", {"location": f"/{self._token}/"})
        else:
            first, *rest = path.removeprefix("/").split("/", 1)
            if not _same(first, self._token):
                await answer(
                    guarded, 404, "this page does not exist; use the address that alphamf printed"
                )
            elif not rest:
                await answer(guarded, 308, "", {"location": f"/{self._token}/"})
            else:
                path = f"/{rest[0]}"
                scope["state"][ADMITTED] = True
                inner = {**scope, "path": path, "raw_path": path.encode()}
                await self._app(inner, receive, guarded)

    def _refusal(self, scope: Message) -> tuple[int, str] | None:
        """Return status and sentence if a request is refused for its host or origin, or None."""
        hosts = header_values(scope, b"host")
        if len(hosts) != 1 or not self._known(hosts[0]):
            return 421, "this server cannot be used under that host name"
        own = all(_place(origin) == hosts[0] for origin in header_values(scope, b"origin"))
        near = {"same-origin", "none"}.issuperset(header_values(scope, b"sec-fetch-site"))
        mode = header_values(scope, b"sec-fetch-mode")
        navigates = mode == ["navigate"] and scope["method"] == "GET"
        if not own or not (near or (navigates and "/api/" not in scope["path"])):
            return 403, "requests from other sites are refused"
        return None

    def _known(self, host: str) -> bool:
        try:
            return urlsplit(f"//{host}").hostname in self._names and "@" not in host
        except ValueError:
            return False


def header_values(scope: Message, name: bytes) -> list[str]:
    """Return all values of a request's header; `name` is the header's name in lower case."""
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def _place(origin: str) -> str | None:
    """Return host and port of an origin, or None if it is not a valid address."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _same(given: str, right: str) -> bool:
    return secrets.compare_digest(given.encode(errors="replace"), right.encode())


async def answer(send: Send, status: int, text: str, headers: dict[str, str] | None = None) -> None:
    """Send a complete response of plain text."""
    found = {"content-type": "text/plain; charset=utf-8", **(headers or {})}
    body = text.encode()
    found["content-length"] = str(len(body))
    pairs = [(name.encode(), value.encode()) for name, value in found.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})


BUSY = "too many requests at a time from your address; close some pages"


def guest(scope: Message) -> str:
    """Return the visitor that sent a request: an IPv4 address, or the first half of an IPv6 one.

    If the sender has a private address (a proxy), the last address in X-Forwarded-For is taken.
    """
    host = (scope.get("client") or ("",))[0]
    named = header_values(scope, b"x-forwarded-for")
    with suppress(ValueError):
        if named and ip_address(host).is_private:
            host = named[-1].rsplit(",", 1)[-1].strip()
        address = ip_address(host)
        return address.exploded[:19] if isinstance(address, IPv6Address) else host
    return host[:64]


class Turnstile:
    """ASGI middleware that refuses requests of a visitor who already has `most` in progress."""

    def __init__(self, app: App, most: int) -> None:
        self._app, self._most = app, most
        self._running: Counter[str] = Counter()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it with status 429."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        who = guest(scope)
        if self._running[who] >= self._most:
            await answer(send, 429, BUSY, {"retry-after": "5"})
            return
        self._running[who] += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._running[who] -= 1
            if not self._running[who]:
                del self._running[who]
