"""Recordings of a server without its processes: what is kept, and what ends with a removal."""

import asyncio
import sys
import time

import pytest

pytest.importorskip("starlette", reason="the extra web is not installed")


from alphamf.serving import recordings as module
from alphamf.serving.limits import Limits
from alphamf.serving.recordings import RENDERS, Recordings
from alphamf.serving.render import Mix
from alphamf.tools.outcomes import Outcome


class Idle:
    """Lanes that never come to a task."""

    def __init__(self, *_, **__):
        pass

    def put(self, ticket, **_):
        """Leave a task alone."""

    def stop(self, ticket):
        ticket.stopped.set()
        ticket.left.set()


class Quick(Idle):
    """Lanes that write an empty download at once."""

    def put(self, ticket, **_):
        path = ticket.task.folder / ticket.task.output
        path.touch()
        ticket.left.set()
        ticket.done(Outcome(None, result=str(path)))


def begun(lanes, folder, monkeypatch):
    """Return recordings in a folder, and one of two and a half seconds that is done."""
    monkeypatch.setattr(module, "Lanes", lanes)
    recordings = Recordings(folder, Limits(), 1)
    recording = recordings.create("a.wav", "fast", 0)
    about = {"format": "WAV", "rate": 8000, "channels": 1, "frames": 20000, "duration": 2.5}
    recording.about, recording.result = about, {"segments": [20000]}
    return recordings, recording


def test_downloads_that_wait_for_each_other_end_when_the_recording_is_removed(
    tmp_path, monkeypatch
):
    async def downloads():
        recordings, recording = begun(Idle, tmp_path, monkeypatch)

        async def download(dry):
            async with recordings.render(recording, Mix(dry)):
                pass

        waiting = [asyncio.create_task(download(dry)) for dry in (0.1, 0.2)]
        await asyncio.sleep(0.05)
        recordings.remove(recording)
        ended = asyncio.gather(*waiting, return_exceptions=True)
        return await asyncio.wait_for(ended, 5)

    assert [str(error) for error in asyncio.run(downloads())] == ["the recording was removed"] * 2


@pytest.mark.parametrize(
    ("clock", "there"),
    [
        ("CLOCK_REALTIME", True),
        pytest.param(
            "CLOCK_BOOTTIME",
            False,
            marks=pytest.mark.skipif(sys.platform != "linux", reason="a clock of Linux"),
        ),
    ],
)
def test_a_recording_is_deleted_a_day_later_whatever_the_date(tmp_path, monkeypatch, clock, there):
    """Also where the machine slept meanwhile: the clock since its start goes on then."""
    ahead = dict.fromkeys(["CLOCK_REALTIME", "CLOCK_BOOTTIME"], 0.0)
    real, pause, today = time.clock_gettime, asyncio.sleep, time.time
    names = {getattr(time, name): name for name in ahead if hasattr(time, name)}
    monkeypatch.setattr("time.clock_gettime", lambda which: real(which) + ahead[names[which]])
    monkeypatch.setattr("time.time", lambda: today() + ahead["CLOCK_REALTIME"])
    monkeypatch.setattr("asyncio.sleep", lambda seconds: pause(0.001))

    async def kept():
        recordings, recording = begun(Idle, tmp_path, monkeypatch)
        cleaning = asyncio.create_task(recordings.delete_expired())
        await pause(0.05)
        assert recordings.get(recording.id) is recording
        ahead[clock] += 25 * 3600
        await pause(0.05)
        cleaning.cancel()
        return recordings.get(recording.id) is recording

    assert asyncio.run(kept()) == there


def test_a_download_that_is_read_is_kept_beside_the_newest(tmp_path, monkeypatch):
    async def downloads():
        recordings, recording = begun(Quick, tmp_path, monkeypatch)
        async with recordings.render(recording, Mix(0.1)) as read:
            for dry in (0.2, 0.3, 0.4, 0.5, 0.6):
                async with recordings.render(recording, Mix(dry)) as newest:
                    assert newest.exists() and read.exists()
        assert newest.exists() and not read.exists()
        assert len(list(recording.folder.iterdir())) == RENDERS

    asyncio.run(downloads())


def test_the_same_download_is_written_once_however_often_it_is_asked_for(tmp_path, monkeypatch):
    async def downloads():
        recordings, recording = begun(Quick, tmp_path, monkeypatch)
        puts = []
        put = Quick.put
        monkeypatch.setattr(Quick, "put", lambda *a, **k: (puts.append(a), put(*a, **k)))

        async def download():
            async with recordings.render(recording, Mix(0.1, loudness=-16.0)) as path:
                return path

        assert len(set(await asyncio.gather(*(download() for _ in range(3))))) == 1
        assert len(puts) == 1

    asyncio.run(downloads())
