"""The examples of servers and voice agents do what a stream does, by stand-ins if need be."""

import asyncio
import runpy
import sys
from abc import ABC, abstractmethod
from importlib.util import find_spec
from types import ModuleType
from typing import Generic, TypeVar

import numpy as np
import pytest
import soundfile

from alphamf import Stream
from tests.support.places import DATA, ROOT

SERVERS = ROOT / "docs" / "servers"
T = TypeVar("T")


class BaseAudioFilter(ABC):
    """The abstract methods of pipecat's filter (1.14)."""

    @abstractmethod
    async def start(self, sample_rate): ...

    @abstractmethod
    async def stop(self): ...

    @abstractmethod
    async def process_frame(self, frame): ...

    @abstractmethod
    async def filter(self, audio): ...


class FilterControlFrame:
    """Pipecat's base of the frames that control a filter."""


class FilterEnableFrame(FilterControlFrame):
    """Pipecat's frame that switches a filter on or off."""

    def __init__(self, enable):
        self.enable = enable


class AudioFrame:
    """LiveKit's frame (1.2): the data are a view of 16-bit numbers, interleaved."""

    def __init__(self, data, sample_rate, num_channels, samples_per_channel):
        assert len(data) == 2 * num_channels * samples_per_channel
        self.data = memoryview(bytes(data)).cast("h")
        self.sample_rate, self.num_channels = sample_rate, num_channels
        self.samples_per_channel = samples_per_channel


class FrameProcessor(Generic[T], ABC):
    """The abstract methods of LiveKit's processor."""

    @property
    @abstractmethod
    def enabled(self): ...

    @enabled.setter
    @abstractmethod
    def enabled(self, value): ...

    @abstractmethod
    def _process(self, frame): ...

    @abstractmethod
    def _close(self): ...


def module(monkeypatch, name, **values):
    """Put a module with some values where imports find it."""
    made = ModuleType(name)
    vars(made).update(values)
    monkeypatch.setitem(sys.modules, name, made)
    return made


def installed(name):
    """Return whether a module can be imported; livekit alone may be a folder of plug-ins."""
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def load(monkeypatch, file):
    """Return what an example defines, with stand-ins for packages that are not installed."""
    if not installed("pipecat.frames"):
        for name in ("pipecat", "pipecat.audio", "pipecat.audio.filters", "pipecat.frames"):
            module(monkeypatch, name)
        name = "pipecat.audio.filters.base_audio_filter"
        module(monkeypatch, name, BaseAudioFilter=BaseAudioFilter)
        control = {"FilterControlFrame": FilterControlFrame, "FilterEnableFrame": FilterEnableFrame}
        module(monkeypatch, "pipecat.frames.frames", **control)
    if not installed("livekit.rtc"):
        rtc = module(
            monkeypatch, "livekit.rtc", AudioFrame=AudioFrame, FrameProcessor=FrameProcessor
        )
        module(monkeypatch, "livekit", rtc=rtc)
    return runpy.run_path(str(SERVERS / file))


@pytest.fixture(scope="module")
def noisy():
    """Return a second of 16-bit samples, and their rate."""
    sound, rate = soundfile.read(DATA / "sample-noisy.wav", dtype="int16")
    return sound[:rate], rate


def delayed(sound, rate):
    """Return what a stream makes of samples, shape (samples, channels), behind its latency."""
    with Stream(rate, sound.shape[1], strength=0.7, latency="low") as stream:
        cleaned = np.concatenate([stream.process(sound), stream.flush()])
        late = round(stream.latency * rate)
    return np.concatenate([np.zeros((late, sound.shape[1]), np.int16), cleaned])[: len(sound)]


@pytest.mark.parametrize("size", [320, 160, 333])
def test_the_filter_for_pipecat_gives_what_a_stream_gives(noisy, monkeypatch, size):
    sound, rate = noisy
    made = load(monkeypatch, "pipecat_filter.py")
    chunks = [sound[k : k + size] for k in range(0, len(sound), size)]

    async def run():
        denoiser = made["AlphaMFFilter"]()
        await denoiser.start(rate)
        answers = [await denoiser.filter(chunk.tobytes()) for chunk in chunks]
        await denoiser.process_frame(made["FilterEnableFrame"](enable=False))
        same = await denoiser.filter(chunks[0].tobytes())
        await denoiser.stop()
        return answers, same

    answers, same = asyncio.run(run())
    assert [len(answer) for answer in answers] == [2 * len(chunk) for chunk in chunks]
    found = np.frombuffer(b"".join(answers), np.int16)
    np.testing.assert_array_equal(found, delayed(sound[:, None], rate)[:, 0])
    assert same == chunks[0].tobytes()


@pytest.mark.parametrize("channels", [1, 2])
def test_the_processor_for_livekit_gives_what_a_stream_gives(noisy, monkeypatch, channels):
    sound, rate = noisy
    sound = np.stack([sound] * channels, axis=1)
    made = load(monkeypatch, "livekit_processor.py")
    frame_of = made["rtc"].AudioFrame
    processor = made["AlphaMFProcessor"]()
    frames = [
        frame_of(part.tobytes(), rate, channels, len(part))
        for part in np.split(sound, range(160, len(sound), 160))
    ]
    answers = [processor._process(frame) for frame in frames]
    assert {(each.sample_rate, each.num_channels) for each in answers} == {(rate, channels)}
    found = np.concatenate([np.frombuffer(each.data, np.int16) for each in answers])
    np.testing.assert_array_equal(found.reshape(-1, channels), delayed(sound, rate))
    assert processor.enabled
    processor.enabled = False
    assert processor._process(frames[0]) is frames[0]
    other = frame_of(np.zeros(80, np.int16).tobytes(), 8000, 1, 80)
    processor.enabled = True
    assert processor._process(other).samples_per_channel == 80  # a track at another rate
    processor._close()


@pytest.mark.parametrize("file", ["pipecat_filter.py", "livekit_processor.py"])
def test_the_examples_are_short(file):
    assert len((SERVERS / file).read_text(encoding="utf-8").splitlines()) <= 60


def talk(query, messages):
    """Send messages to the server of the example, and return the answers and how it closed."""
    pytest.importorskip("websockets", reason="the package websockets is not installed")
    from websockets.asyncio.client import connect
    from websockets.asyncio.server import serve
    from websockets.exceptions import ConnectionClosed

    denoise = runpy.run_path(str(SERVERS / "websocket_server.py"))["denoise"]

    async def run():
        async with serve(denoise, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with connect(f"ws://127.0.0.1:{port}/?{query}") as client:
                answers = []
                try:
                    for message in messages:
                        await client.send(message)
                        answers.append(await client.recv())
                except ConnectionClosed:
                    pass
                await client.wait_closed()
                return answers, client.close_code, client.close_reason

    return asyncio.run(asyncio.wait_for(run(), 60))


@pytest.mark.parametrize(("kind", "dtype"), [("s16", "int16"), ("f32", "float32")])
def test_websocket_gives_what_a_stream_gives(kind, dtype):
    sound, rate = soundfile.read(DATA / "sample-noisy.wav", dtype=dtype)
    sound = sound[:rate]
    chunks = np.split(sound, [100, 1700, 1701, 9000])
    messages = [*(chunk.tobytes() for chunk in chunks), "end"]
    answers, code, _ = talk(f"rate={rate}&channels=1&format={kind}", messages)
    with Stream(rate, 1, latency="low") as stream:
        expected = np.concatenate([stream.process(sound), stream.flush()])
    assert code == 1000 and len(answers) == len(messages)
    np.testing.assert_array_equal(np.frombuffer(b"".join(answers), dtype), expected)
    assert [len(answer) == 0 for answer in answers[:2]] == [True, False]


@pytest.mark.parametrize(
    ("query", "message", "reason"),
    [("rate=7", b"", "the rate must be from"), ("channels=2", b"abcdef", "cannot reshape"),
     ("format=mp3", b"ab", "mp3"), ("", b"abc", "buffer size")],
)  # fmt: skip
def test_websocket_tells_what_it_does_not_take(query, message, reason):
    answers, code, told = talk(query, [message])
    assert not answers and code == 1003 and reason in told
