"""A guest of a public server leaves room and time to the others."""

import asyncio
import threading
import time
from dataclasses import dataclass

import numpy as np
import pytest
import soundfile

pytest.importorskip("starlette", reason="the extra web is not installed")
pytest.importorskip("uvicorn", reason="the extra web is not installed")

from alphamf.audio import reader
from alphamf.audio.reader import open_reader
from alphamf.errors import AlphaMFError
from alphamf.serving.guard import Turnstile, guest
from alphamf.serving.lanes import TOO_SLOW, Lanes, Ticket
from alphamf.serving.limits import PUBLIC, Limits
from alphamf.serving.render import SOURCE
from alphamf.serving.tasks import ReadTask
from tests.support.page import Page, wav

ONE, OTHER = {"x-forwarded-for": "192.0.2.1"}, {"x-forwarded-for": "192.0.2.2"}


def ticket(who: str, task: object, seconds: float = 60.0) -> Ticket:
    return Ticket(task, lambda *_: None, lambda _: None, lambda: None, who, seconds)


class Watched(Lanes):
    """Lanes that note whose turn it is, and go on when they may."""

    def __init__(self, count: int, most: int) -> None:
        self.begun: list[str] = []
        self.may = threading.Semaphore(0)
        super().__init__(count, most=most)

    def _do(self, ticket, worker):
        self.begun.append(ticket.task)
        self.may.acquire()

    def until(self, count: int) -> list[str]:
        deadline = time.monotonic() + 60
        while len(self.begun) < count:
            assert time.monotonic() < deadline, self.begun
            time.sleep(0.001)
        return self.begun


@pytest.fixture
def lanes():
    made = []

    def make(*about):
        made.append(Watched(*about))
        return made[-1]

    yield make
    for each in made:
        each.may.release(99)
        each.close()


def test_guests_take_turns_and_each_has_the_order_of_its_own(lanes):
    watched = lanes(1, 1)
    for who, task in [("a", "a1"), ("a", "a2"), ("a", "a3"), ("b", "b1"), ("c", "c1")]:
        watched.put(ticket(who, task))
    watched.until(1)
    watched.put(ticket("a", "a-first"), first=True)
    watched.may.release(99)
    assert watched.until(6) == ["a1", "b1", "c1", "a-first", "a2", "a3"]


def test_one_guest_never_has_all_lanes(lanes):
    watched = lanes(2, 1)
    for task in ("a1", "a2"):
        watched.put(ticket("a", task))
    watched.until(1)
    watched.put(ticket("b", "b1"))
    assert watched.until(2) == ["a1", "b1"]


@dataclass(frozen=True)
class Endless:
    def run(self, update):
        time.sleep(3600)


def test_a_task_that_takes_too_long_is_stopped():
    lanes, found = Lanes(1), []
    slow = ticket("a", Endless(), 0.2)
    slow.done = found.append
    lanes.put(slow)
    assert slow.left.wait(60) and found[0].error == TOO_SLOW
    lanes.close()


@pytest.fixture
def page(tmp_path):
    made = Page(tmp_path, Limits(spare=0, jobs=16, uploads=16, per_minute=3, guests=True))
    yield made
    made.close()


def test_every_task_has_a_deadline(page):
    page.ask("POST", "/api/recordings", wav())
    page.work(page.short)
    assert page.short.queue[0].seconds == Limits.short
    page.work(page.short)
    assert page.long.queue[0].seconds == Limits.short + Limits.long
    assert {each.guest for each in page.long.queue} == {"127.0.0.1"}


def test_a_guest_gets_a_part_of_the_recordings_and_a_minute_of_its_own(page):
    def ask(who):
        return page.ask("POST", "/api/recordings", wav(), **who)

    made = [ask(ONE) for _ in range(3)]
    assert [each.status for each in made] == [201, 201, 429]
    assert "already holds 2 recordings" in made[-1].json()["error"]
    assert ask(OTHER).status == 201  # the fourth of all
    page.ask("DELETE", "/" + made[0].headers["location"])
    refused = ask(ONE)  # the fourth in this minute
    assert refused.status == 429 and "try again in a minute" in refused.json()["error"]
    assert ask(OTHER).status == 201


def test_who_has_most_makes_room_for_others(page):
    everyone = [{"x-forwarded-for": f"192.0.2.{k // 2}"} for k in range(16)]
    held = [page.ask("POST", "/api/recordings", b"none", **each) for each in everyone]
    new = {"x-forwarded-for": "192.0.2.99"}
    assert page.ask("POST", "/api/recordings", wav(), **new).status == 429  # all are being read
    for _ in held:
        page.work(page.short)
    assert page.ask("POST", "/api/recordings", wav(), **new).status == 201
    left = [page.ask("GET", "/" + each.headers["location"]).status for each in held]
    assert left == [404] + [200] * 15


def test_a_guest_gets_a_part_of_the_uploads(page):
    begun = [page.begin("POST", "/api/recordings", who) for who in (ONE, ONE, ONE, OTHER)]
    page.until(begun[2].done)
    assert begun[2].status == 503
    assert [begun[k].feed(wav(), more=False).wait().status for k in (0, 1, 3)] == [201] * 3


def test_what_the_header_promises_is_refused_before_it_is_decoded(tmp_path, monkeypatch):
    soundfile.write(tmp_path / SOURCE, np.zeros(8000 * 120), 8000, format="FLAC")
    read = []
    monkeypatch.setattr(reader.Samples, "add", lambda _, block: read.append(block))
    with pytest.raises(AlphaMFError, match="lasts longer than 1 minutes, the most"):
        ReadTask(tmp_path, 8000 * 60, 0).run(None)
    assert not read


def test_what_is_longer_than_promised_is_refused_when_it_is(tmp_path):
    seen = []

    def limit(rate, channels, frames):
        seen.append(frames)
        if len(seen) == 3:
            raise AlphaMFError("too long")

    soundfile.write(tmp_path / "a.wav", np.zeros(8000 * 120), 8000)
    with (
        pytest.raises(AlphaMFError, match="too long"),
        open_reader(tmp_path / "a.wav", limit=limit),
    ):
        pass
    assert seen == [8000 * 120, reader.BLOCK, 2 * reader.BLOCK]


@pytest.mark.parametrize(
    ("client", "forwarded", "wanted"),
    [
        ("93.184.216.34", "", "93.184.216.34"),
        ("93.184.216.34", "198.51.100.1", "93.184.216.34"),  # a stranger's word for it
        ("127.0.0.1", "203.0.113.9, 198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("2a00:1450:1:2:3:4:5:6", "", "2a00:1450:0001:0002"),
        ("127.0.0.1", "x" * 1000, "x" * 64),
    ],
)
def test_a_guest_is_known_by_its_address(client, forwarded, wanted):
    headers = [(b"x-forwarded-for", forwarded.encode())] if forwarded else []
    assert guest({"client": (client, 1), "headers": headers}) == wanted


def test_the_requests_of_one_guest_leave_room_for_others():
    async def check():
        end, most = asyncio.Event(), PUBLIC.connections // 4

        async def stream(scope, receive, send):
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await end.wait()

        app = Turnstile(stream, most)

        async def ask(address):
            sent = []

            async def send(message):
                sent.append(message)

            scope = {"type": "http", "client": (address, 1), "headers": []}
            task = asyncio.create_task(app(scope, None, send))
            await asyncio.sleep(0)
            return task, sent[0]["status"]

        many = [await ask("192.0.2.1") for _ in range(most + 1)]
        other = await ask("192.0.2.2")
        end.set()
        await asyncio.gather(*(task for task, _ in many), other[0])
        later = await ask("192.0.2.1")
        return [status for _, status in many], other[1], later[1]

    many, other, later = asyncio.run(check())
    assert many == [200] * 32 + [429] and (other, later) == (200, 200)
