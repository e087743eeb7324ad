"""What the server writes leaves the disk its room, and what it sends is of bounded size."""

import os
import time
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("starlette", reason="the extra web is not installed")
pytest.importorskip("uvicorn", reason="the extra web is not installed")

from alphamf.denoising.settings import PRESETS
from alphamf.errors import AlphaMFError
from alphamf.serving import limits
from alphamf.serving.limits import Limits
from alphamf.serving.render import PART, SOURCE, Mix, RenderTask, SoundShape
from alphamf.serving.tasks import DenoiseTask, PreviewTask, ReadTask
from tests.support.page import Page, wav

RATE, FRAMES = 8000, 12_000
SPARE = 1_000_000
NEVER = 10**18
"""Bytes that no disk has."""


class Usage(NamedTuple):
    """As of `shutil.disk_usage`."""

    free: int


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Make chains short."""
    monkeypatch.setitem(PRESETS, "fast", replace(PRESETS["fast"], steps=4, keep=2))


@pytest.fixture
def page(tmp_path):
    """Have the application, which leaves a megabyte free."""
    made = Page(tmp_path, Limits(spare=SPARE))
    yield made
    made.close()


def denoised(page: Page, channels: int = 1) -> str:
    """Return the id of a recording that the page has denoised."""
    key = page.ask("POST", "/api/recordings?preset=fast", wav(FRAMES, channels)).json()["id"]
    for lanes in (page.short, page.short, page.long):
        page.work(lanes)
    return key


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """Have a disk of 3 MB."""

    def usage(_):
        used = 0
        for folder, _, names in os.walk(tmp_path):
            for name in names:
                with suppress(FileNotFoundError):  # a thread deletes rejected uploads meanwhile
                    used += Path(folder, name).stat().st_size
        return Usage(3_000_000 - used)

    monkeypatch.setattr(limits.shutil, "disk_usage", usage)


@pytest.mark.parametrize("length", [{}, {"content-length": "4000000"}])
def test_an_upload_leaves_the_spare_room_whether_it_says_its_length_or_not(
    length, page, tmp_path, disk
):
    exchange = page.begin("POST", "/api/recordings", length)
    for _ in range(40):
        exchange.feed(bytes(100_000))
        page.run()
    assert exchange.wait().status == 507 and exchange.headers["retry-after"] == "2"
    assert "does not have enough free space" in exchange.json()["error"]
    page.until(lambda: not list(tmp_path.iterdir()))


def test_uploads_that_come_at_once_leave_the_spare_room_together(page, tmp_path, disk):
    begin = partial(page.begin, "POST", "/api/recordings", {"content-length": "900000"})
    exchanges = [begin() for _ in range(3)]
    for _ in range(9):
        for exchange in exchanges:
            exchange.feed(bytes(100_000))
            page.run()
            assert limits.shutil.disk_usage(tmp_path).free >= SPARE
    for exchange in exchanges:
        exchange.feed(b"", more=False)
    assert 507 in [exchange.wait().status for exchange in exchanges]


def test_no_task_writes_where_there_is_no_room(tmp_path):
    (tmp_path / SOURCE).write_bytes(wav(FRAMES))
    sound = SoundShape(RATE, 1, FRAMES)
    tasks = (
        lambda spare: ReadTask(tmp_path, 10**9, spare),
        lambda spare: PreviewTask(tmp_path, sound, 0, 0, 1, spare),
        lambda spare: DenoiseTask(tmp_path, "fast", 0, 1, spare),
        lambda spare: DenoiseTask(tmp_path, "fast", 0, 1, spare, echo_free=True),
        lambda spare: RenderTask(tmp_path, "other", True, Mix(0.5), sound, (FRAMES,), spare),
    )
    for task in tasks:
        before = set(tmp_path.rglob("*"))
        with pytest.raises(AlphaMFError, match="the server's disk does not have enough free space"):
            task(NEVER).run(None)
        new = [path for path in tmp_path.rglob("*") if path not in before]
        assert not any(path.stat().st_size for path in new if path.is_file()), new
        task(0).run(None)


def test_an_upload_that_was_fast_at_first_may_not_be_slow_later(tmp_path):
    with closing(Page(tmp_path, Limits(idle=0.5, least_rate=1000))) as page:
        exchange = page.begin("POST", "/api/recordings").feed(bytes(1_000_000))
        begun = time.monotonic()
        while not exchange.done() and time.monotonic() < begun + 30:
            exchange.feed(b"a")
            page.run()
            time.sleep(0.02)
        assert exchange.wait().status == 408


def test_an_answer_goes_out_in_parts_of_bounded_size(page):
    key = denoised(page, 12)
    one = f"/api/recordings/{key}"
    for path in (f"{one}/sound?frames=12000", f"{one}/result", f"/api/archive?id={key}"):
        exchange = page.ask("GET", path)
        assert exchange.status == 200 and len(exchange.body) > PART
        assert max(map(len, exchange.parts)) <= PART + 1000


def test_an_echo_without_room_fails_alone_and_can_be_tried_again(page, monkeypatch):
    one = f"/api/recordings/{denoised(page)}"
    with monkeypatch.context() as full:
        full.setattr(limits.shutil, "disk_usage", lambda _: Usage(0))
        assert page.ask("POST", f"{one}/echo").status == 202
        page.work(page.long)
    state = page.ask("GET", one).json()
    assert state["state"] == "done" and state["error"] is None and not state["echo"]["done"]
    assert "does not have enough free space" in state["echo"]["error"]
    assert page.ask("GET", f"{one}/result").status == 200
    assert page.ask("GET", f"{one}/result?echo=1").status == 409
    assert page.ask("DELETE", f"{one}/echo").json()["echo"] is None
    assert page.ask("POST", f"{one}/echo").status == 202
    page.work(page.long)
    assert page.ask("GET", one).json()["echo"] == {"done": True, "progress": 1, "error": None}
    assert page.ask("GET", f"{one}/result?echo=1").status == 200
