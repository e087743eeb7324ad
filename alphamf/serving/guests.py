"""Guests of a public server: who a request is from, and how many requests one may have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from ipaddress import IPv6Address, ip_address

from alphamf.serving.guard import App, Message, answer, header_values

BUSY = "too many requests at a time from your address; close some pages"


def guest(scope: Message) -> str:
    """Return whom a request is from: an address, or the first half of one of IPv6.

    A proxy on this machine or in its network names its client last in X-Forwarded-For.
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
    """ASGI middleware that refuses a guest who has many requests under way."""

    def __init__(self, app: App, most: int) -> None:
        self._app, self._most = app, most
        self._running: Counter[str] = Counter()

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        """Pass a request on, or refuse it."""
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
