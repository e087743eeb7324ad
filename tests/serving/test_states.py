"""The page's API in any order, compared with a model that knows states but no sound."""

import io
import shutil
import tempfile
import zipfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

pytest.importorskip("starlette", reason="the extra web is not installed")
pytest.importorskip("uvicorn", reason="the extra web is not installed")

from alphamf.denoising.settings import PRESETS
from alphamf.serving.limits import Limits
from alphamf.serving.recordings import RENDERS
from tests.support.page import Exchange, Page, wav

RATE, FRAMES = 8000, 9000
LIMITS = Limits(upload=100_000, jobs=2, uploads=1, spare=0)
NONE = "0" * 32
"""The id of no recording."""

RENDERED = ["", "?dry=0.5", "?format=flac", "?dry=1", "?echo=1", "?echo=0.5"]
"""Queries of downloads."""


GOOD = {"mono": 1, "stereo": 2}
BODIES = {name: wav(FRAMES, channels) for name, channels in GOOD.items()} | {
    "broken": b"RIFF\x24\x00\x00\x00WAVEnonsense",
    "empty": b"",
    "large": b"a" * 100_001,
    "text": b"abc",
}
REFUSED = {"empty": 400, "large": 413, "text": 415}
"""Statuses of uploads that are no recording."""


@dataclass
class Expected:
    """What the model says of a recording."""

    kind: str
    state: str = "reading"
    previewing: bool = False
    preview: int | None = None
    echo: bool | None = None
    renders: list[str] = field(default_factory=list)

    @property
    def read(self) -> bool:
        """Whether it has been read."""
        return self.state in ("waiting", "denoising", "done")


class Api(RuleBasedStateMachine):
    """Requests, and the tasks of the server, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="alphamf-test-"))
        self.page = Page(self.folder, LIMITS)
        self.all: dict[str, Expected] = {}
        self.short: list[tuple[str, str, int]] = []
        self.long: list[tuple[str, str]] = []
        self.current: tuple[str, str] | None = None
        self.upload: tuple[Exchange, str] | None = None
        self.download: tuple[Exchange, str, str] | None = None

    def teardown(self) -> None:
        if self.upload:
            self.upload[0].leave().wait()
        for key in list(self.all):
            self.remove(key)
        self.page.close()
        shutil.rmtree(self.folder)

    @initialize(kind=st.sampled_from(list(GOOD)), count=st.integers(0, 6))
    def begin(self, kind, count):
        """Begin with a recording that has come as far as that."""
        self.send(kind)
        whole = (self.do_short, self.do_short, self.begin_long, self.end_long)
        for do in (*whole, lambda: self.remove_echo(*self.all), self.begin_long)[:count]:
            do()

    # Uploads.

    def full(self) -> bool:
        return len(self.all) + (self.upload is not None) >= LIMITS.jobs

    def refusal(self) -> int | None:
        """Return the status of an upload that the server has no place for."""
        return 503 if self.upload else 429 if self.full() else None

    def received(self, exchange: Exchange, kind: str) -> None:
        answer = exchange.json()
        assert exchange.status == 201 and answer["id"] not in self.all
        self.all[answer["id"]] = Expected(kind)
        self.short.append(("look", answer["id"], 0))

    @rule(kind=st.sampled_from([*GOOD, "broken"]))
    def send(self, kind):
        exchange = self.page.ask("POST", "/api/recordings?name=a.wav&preset=fast", BODIES[kind])
        if (status := self.refusal()) is not None:
            assert exchange.status == status
        else:
            self.received(exchange, kind)

    @rule(kind=st.sampled_from(list(REFUSED)))
    def send_what_is_refused(self, kind):
        headers = {"content-type": "text/plain"} if kind == "text" else {}
        exchange = self.page.ask("POST", "/api/recordings?preset=fast", BODIES[kind], **headers)
        assert exchange.status == (415 if headers else self.refusal() or REFUSED[kind])

    @precondition(lambda self: self.refusal() is None)
    @rule(kind=st.sampled_from(list(GOOD)))
    def begin_upload(self, kind):
        exchange = self.page.begin("POST", "/api/recordings?name=a.wav&preset=fast")
        exchange.feed(BODIES[kind][:1000])
        self.upload = exchange, kind
        self.page.run()

    @precondition(lambda self: self.upload)
    @rule(whole=st.booleans())
    def end_upload(self, whole):
        (exchange, kind), self.upload = self.upload, None
        if whole:
            self.received(exchange.feed(BODIES[kind][1000:], more=False).wait(), kind)
        else:
            assert exchange.leave().wait().status == 400

    # What the server does.

    @precondition(lambda self: self.short)
    @rule()
    def do_short(self):
        kind, key, start = self.short.pop(0)
        self.page.work(self.page.short)
        expected = self.all[key]
        if kind == "look" and expected.kind in GOOD:
            expected.state, expected.previewing = "waiting", True
            self.short.insert(0, ("preview", key, 0))
        elif kind == "look":
            expected.state = "failed"
        elif kind == "preview":
            expected.previewing, expected.preview = False, start
            ticket = "denoise", key
            if ticket not in self.long and expected.state == "waiting" and ticket != self.current:
                self.long.append(ticket)
        else:
            (exchange, _, render), self.download = self.download, None
            assert exchange.wait().status == 200
            expected.renders = [*expected.renders, render][-RENDERS:]

    @precondition(lambda self: self.long and self.current is None)
    @rule()
    def begin_long(self):
        self.current = kind, key = self.long.pop(0)
        if kind == "denoise":
            self.all[key].state = "denoising"
        self.page.long.take()

    @precondition(lambda self: self.current)
    @rule()
    def end_long(self):
        (kind, key), self.current = self.current, None
        if kind == "denoise":
            self.all[key].state = "done"
        else:
            self.all[key].echo = True
        self.page.long.finish()

    # Questions and changes.

    def one(self, data) -> str:
        return data.draw(st.sampled_from([*self.all, NONE]), label="recording")

    def least(self, key: str) -> int | None:
        """Return the status of a question about a recording that cannot be answered."""
        return 404 if key not in self.all else None if self.all[key].read else 409

    @rule(data=st.data(), second=st.integers(0, 2))
    def ask_preview(self, data, second):
        key = self.one(data)
        status = self.page.ask("POST", f"/api/recordings/{key}/preview?start={second}").status
        expected = self.all.get(key)
        if expected is None or not expected.read:
            assert status == self.least(key)
        elif expected.previewing or expected.state == "done":
            assert status == 409
        elif second > (FRAMES - 1) // RATE:
            assert status == 400
        else:
            assert status == 202
            expected.previewing = True
            self.short.insert(0, ("preview", key, second * RATE))

    @rule(data=st.data())
    def ask_to_remove_echo(self, data):
        self.remove_echo(self.one(data))

    def remove_echo(self, key: str) -> None:
        status = self.page.ask("POST", f"/api/recordings/{key}/echo").status
        if not self.is_done(key) or self.all[key].echo is not None:
            assert status == (404 if key == NONE else 409)
            return
        assert status == 202
        self.all[key].echo = False
        self.long.append(("echo", key))

    @rule(data=st.data())
    def ask_to_keep_echo(self, data):
        key = self.one(data)
        status = self.page.ask("DELETE", f"/api/recordings/{key}/echo").status
        assert status == (404 if key == NONE else 200)
        if key != NONE and self.all[key].echo is False:
            self.all[key].echo = None
            self.long = [each for each in self.long if each != ("echo", key)]
            self.current = None if self.current == ("echo", key) else self.current

    @rule(data=st.data(), start=st.integers(0, FRAMES), count=st.integers(1, FRAMES))
    def ask_sound(self, data, start, count):
        key = self.one(data)
        address = f"/api/recordings/{key}/sound?start={start}&frames={count}"
        exchange = self.page.ask("GET", address)
        if (status := self.least(key)) is not None:
            assert exchange.status == status
            return
        expected, count = self.all[key], min(count, FRAMES - start)
        audio, _ = soundfile.read(
            io.BytesIO(BODIES[expected.kind]), dtype="float32", always_2d=True
        )
        ahead = expected.preview is not None and expected.preview <= start
        kind = "whole" if expected.state == "done" else "preview" if ahead else "none"
        shape = (1 if kind == "none" else 2, audio.shape[1], count)
        planes = np.frombuffer(exchange.body, "<f4").reshape(shape)
        assert exchange.status == 200 and exchange.headers["x-speech"] == kind
        assert exchange.headers["content-length"] == str(len(exchange.body))
        assert np.array_equal(planes[0].T, audio[start : start + count])

    @rule(data=st.data(), of=st.sampled_from(["input", "speech", "band"]))
    def ask_picture(self, data, of):
        key = self.one(data)
        exchange = self.page.ask("GET", f"/api/recordings/{key}/picture?of={of}")
        assert exchange.status == (self.least(key) or 200)
        if exchange.status == 200:
            drawn = of == "input" or self.all[key].state == "done"
            assert bool(exchange.body) == drawn

    @precondition(lambda self: self.download is None)
    @rule(data=st.data(), render=st.sampled_from(RENDERED))
    def ask_result(self, data, render):
        key = self.one(data)
        exchange = self.page.begin("GET", f"/api/recordings/{key}/result{render}")
        expected = self.all.get(key)
        if expected is None or expected.state != "done":
            assert exchange.wait().status == (404 if expected is None else 409)
        elif "echo" in render and not expected.echo:
            assert exchange.wait().status == 409
        elif render in ("", "?echo=1", *expected.renders):
            assert exchange.wait().status == 200
            sound, rate = soundfile.read(io.BytesIO(exchange.body), always_2d=True)
            assert rate == RATE and sound.shape == (FRAMES, GOOD[expected.kind])
        else:
            self.page.until(lambda: len(self.page.short.queue) > len(self.short))
            self.download = exchange, key, render
            self.short.append(("render", key, 0))

    @rule(data=st.data(), count=st.integers(1, LIMITS.jobs))
    def ask_archive(self, data, count):
        keys = [self.one(data) for _ in range(count)]
        exchange = self.page.ask("GET", "/api/archive?id=" + "&id=".join(keys))
        wrong = [404 if key == NONE else 409 for key in keys if not self.is_done(key)]
        assert exchange.status == (wrong[0] if wrong else 200)
        if not wrong:
            archive = zipfile.ZipFile(io.BytesIO(exchange.body))
            assert archive.testzip() is None and len(archive.namelist()) == count

    def is_done(self, key: str) -> bool:
        return key in self.all and self.all[key].state == "done"

    @rule(data=st.data())
    def ask_to_remove(self, data):
        self.remove(self.one(data))

    def remove(self, key: str) -> None:
        status = self.page.ask("DELETE", f"/api/recordings/{key}").status
        assert status == (404 if key == NONE else 204)
        self.all.pop(key, None)
        self.short = [each for each in self.short if each[1] != key]
        self.long = [each for each in self.long if each[1] != key]
        self.current = None if self.current and self.current[1] == key else self.current
        if self.download and self.download[1] == key:
            assert self.download[0].wait().status == 422
            self.download = None
        if key != NONE:
            self.page.until(lambda: not (self.folder / key).exists())
            assert self.page.ask("GET", f"/api/recordings/{key}").status == 404

    # What always holds.

    @invariant()
    def states_are_as_expected(self):
        for key, expected in self.all.items():
            state = self.page.ask("GET", f"/api/recordings/{key}").json()
            assert (state["state"], state["previewing"]) == (expected.state, expected.previewing)
            ahead = state["preview"] and state["preview"]["start"]
            assert ahead == expected.preview
            assert (state["echo"] and state["echo"]["done"]) == expected.echo
            assert state["ready"] == (FRAMES if expected.state == "done" else 0)
            assert bool(state["error"]) == (expected.state == "failed")

    @invariant()
    def files_are_those_of_the_recordings(self):
        count = len(self.all) + (self.upload is not None)
        self.page.until(lambda: len(list(self.folder.iterdir())) == count)
        assert set(self.all) <= {path.name for path in self.folder.iterdir()}


@pytest.mark.parametrize(
    ("examples", "steps"), [(6, 25), pytest.param(100, 60, marks=pytest.mark.slow)]
)
def test_the_api_is_as_its_model_in_any_order(examples, steps, monkeypatch):
    monkeypatch.setitem(PRESETS, "fast", replace(PRESETS["fast"], steps=4, keep=2))
    options = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        database=None,
    )
    run_state_machine_as_test(Api, settings=options)
