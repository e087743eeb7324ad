"""The application of the page in this process: requests in parts, tasks when a test says so."""

from __future__ import annotations

import asyncio
import io
import json
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from alphamf.serving import recordings
from alphamf.serving.app import build
from alphamf.serving.lanes import Ticket
from alphamf.serving.limits import Limits
from alphamf.serving.tasks import work
from alphamf.tools.outcomes import attempt


def wav(frames: int = 8000, channels: int = 1) -> bytes:
    """Return a file of noise at 8 kHz."""
    file = io.BytesIO()
    sound = 0.1 * np.random.default_rng(channels).standard_normal((frames, channels))
    soundfile.write(file, sound, 8000, format="WAV")
    return file.getvalue()


class Steps:
    """Lanes that take a task, and do it, each when a test says so; they have no processes."""

    made: list[Steps]

    def __init__(self, count: int, *, prepared: bool = False, most: int | None = None) -> None:
        self.queue: deque[Ticket] = deque()
        self.current: Ticket | None = None
        self.made.append(self)

    def put(self, ticket: Ticket, *, first: bool = False) -> None:
        (self.queue.appendleft if first else self.queue.append)(ticket)

    def stop(self, ticket: Ticket) -> None:
        if ticket in self.queue:
            self.queue.remove(ticket)
            ticket.left.set()
        elif ticket is self.current:
            self.current = None
            ticket.left.set()

    def count_tasks(self) -> int:
        return len(self.queue) + (self.current is not None)

    def close(self) -> None:
        """Do nothing."""

    def take(self) -> None:
        """Begin the first task, where none is being done."""
        assert self.current is None
        self.current = self.queue.popleft()
        self.current.started()

    def finish(self) -> None:
        """Do the task that was begun."""
        ticket, self.current = self.current, None
        ticket.done(attempt(work, ticket.task, None))
        ticket.left.set()


class Exchange:
    """A request on its way, and what has been answered so far."""

    def __init__(self, page: Page, scope: dict[str, Any]) -> None:
        self._page, self._come = page, asyncio.Queue()
        self.sent: list[dict[str, Any]] = []
        self._task = page.loop.create_task(page.app(scope, self._come.get, self._send))

    async def _send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    def feed(self, body: bytes, *, more: bool = True) -> Exchange:
        """Send a part of the body."""
        self._come.put_nowait({"type": "http.request", "body": body, "more_body": more})
        return self

    def leave(self) -> Exchange:
        self._come.put_nowait({"type": "http.disconnect"})
        return self

    def done(self) -> bool:
        return self._task.done()

    def wait(self) -> Exchange:
        self._page.until(self.done)
        self._task.result()
        return self

    @property
    def status(self) -> int:
        return self.sent[0]["status"]

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def parts(self) -> list[bytes]:
        """Return the body as it was sent."""
        return [bytes(message["body"]) for message in self.sent[1:]]

    @property
    def body(self) -> bytes:
        return b"".join(self.parts)

    def json(self) -> Any:
        return json.loads(self.body)


class Page:
    """The application, with recordings in the folder `store`."""

    def __init__(self, store: Path, limits: Limits) -> None:
        self._runner = asyncio.Runner()
        self.loop = self._runner.get_loop()
        self.app = build(store, limits, 1, lambda: False)
        self._life = self.app.router.lifespan_context(self.app)
        real, recordings.Lanes, Steps.made = recordings.Lanes, Steps, []
        try:
            self.loop.run_until_complete(self._life.__aenter__())
        finally:
            recordings.Lanes = real
        self.long, self.short = Steps.made

    def close(self) -> None:
        """End it, and the requests that a failed test left on their way."""
        self.loop.run_until_complete(self._life.__aexit__(None, None, None))
        self._runner.close()

    def until(self, condition: Callable[[], object], patience: float = 90) -> None:
        """Run until a condition holds."""

        async def wait() -> None:
            deadline = self.loop.time() + patience
            while not condition():
                assert self.loop.time() < deadline, "waited in vain"
                await asyncio.sleep(0.001)

        self.loop.run_until_complete(wait())

    def run(self) -> None:
        """Run what is to be done now."""
        self.loop.run_until_complete(asyncio.sleep(0))

    def begin(self, method: str, path: str, headers: Mapping[str, str] | None = None) -> Exchange:
        place, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "path": place,
            "query_string": query.encode(),
            "headers": [(k.lower().encode(), v.encode()) for k, v in (headers or {}).items()],
            "client": ("127.0.0.1", 1),
        }
        return Exchange(self, scope)

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Exchange:
        return self.begin(method, path, headers).feed(body, more=False).wait()

    def work(self, lanes: Steps) -> None:
        """Do the next task of some lanes."""
        lanes.take()
        lanes.finish()
        self.run()
