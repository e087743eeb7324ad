"""Voice agents and a WebSocket get the samples of a stream; agents 40 ms later."""

import asyncio
import runpy

import numpy as np
import pytest
import soundfile

from alphamf import AlphaMFError, Stream
from alphamf.agents.even_stream import STRENGTH, EvenStream
from tests.support.places import DATA, ROOT


@pytest.fixture(scope="module")
def noisy():
    """Return a second of 16-bit samples, and their rate."""
    sound, rate = soundfile.read(DATA / "sample-noisy.wav", dtype="int16")
    return sound[:rate], rate


def delayed(sound, rate, strength):
    """Return what a stream makes of samples, shape (samples, channels), behind its latency."""
    with Stream(rate, sound.shape[1], strength=strength, latency="low") as stream:
        cleaned = np.concatenate([stream.process(sound), stream.flush()])
        late = round(stream.latency * rate)
    return np.concatenate([np.zeros((late, sound.shape[1]), np.int16), cleaned])[: len(sound)]


def run_pipecat(sound, rate, size, frames=()):
    """Return what the filter makes of mono sound; `frames` reach it before the sample of theirs."""
    filters = pytest.importorskip("alphamf.agents.pipecat", reason="Pipecat is not installed")

    chunks = {first: sound[first : first + size] for first in range(0, len(sound), size)}

    async def run():
        made = filters.AlphaMFFilter()
        await made.start(rate)
        answers = []
        for first, chunk in chunks.items():
            if first in frames:
                await made.process_frame(frames[first])
            answers.append(await made.filter(chunk.tobytes()))
        await made.stop()
        return answers

    answers = asyncio.run(run())
    assert [len(each) // 2 for each in answers] == [len(chunk) for chunk in chunks.values()]
    return np.frombuffer(b"".join(answers), np.int16)


@pytest.mark.parametrize("size", [320, 160, 333])
def test_pipecat_gets_what_a_stream_gives(noisy, size):
    sound, rate = noisy
    found = run_pipecat(sound, rate, size)
    expected = delayed(sound[:, None], rate, STRENGTH)[:, 0]
    np.testing.assert_allclose(found, expected, atol=1)  # rounded once more


def test_frames_of_pipecat_switch_and_set_the_strength_without_a_jump(noisy):
    frames = pytest.importorskip("pipecat.frames.frames", reason="Pipecat is not installed")
    sound, rate = noisy
    off, on = frames.FilterEnableFrame(enable=False), frames.FilterEnableFrame(enable=True)
    whole = frames.FilterUpdateSettingsFrame(settings={"strength": 1.0})
    found = run_pipecat(sound, rate, 160, {3200: off, 6400: on, 9600: whole})
    for first, last, strength in [
        (0, 3200, STRENGTH), (3360, 6400, 0), (6560, 9600, STRENGTH), (9760, 16000, 1)
    ]:  # fmt: skip
        expected = delayed(sound[:, None], rate, strength)[first:last, 0]
        np.testing.assert_allclose(found[first:last], expected, atol=1)


def livekit():
    module = pytest.importorskip("alphamf.agents.livekit", reason="LiveKit is not installed")
    return module.AlphaMFProcessor, module.rtc.AudioFrame


@pytest.mark.parametrize("channels", [1, 2])
def test_livekit_gets_what_a_stream_gives(noisy, channels):
    processor_of, frame_of = livekit()
    sound, rate = noisy
    sound = np.stack([sound] * channels, axis=1)
    processor = processor_of(strength=0.7)
    answers = [
        processor._process(frame_of(part.tobytes(), rate, channels, len(part)))
        for part in np.split(sound, range(160, len(sound), 160))
    ]
    assert {(each.sample_rate, each.num_channels) for each in answers} == {(rate, channels)}
    found = np.concatenate([np.frombuffer(each.data, np.int16) for each in answers])
    expected = delayed(sound, rate, 0.7)
    np.testing.assert_allclose(found.reshape(-1, channels), expected, atol=1)


def test_livekit_may_change_the_rate_and_switch_it_off():
    processor_of, frame_of = livekit()
    processor = processor_of()
    assert processor.enabled
    for rate, length in [(16000, 160), (8000, 80), (48000, 480)]:
        frame = frame_of(bytes(2 * length + 2), rate, 1, length, userdata={"id": 7})
        answer = processor._process(frame)
        assert (answer.sample_rate, answer.samples_per_channel) == (rate, length)
        assert answer.userdata == {"id": 7}
    loud = frame_of(np.full(1920, 9000, np.int16).tobytes(), 48000, 1, 1920)
    processor._process(loud)
    processor.enabled = False
    processor.enabled = True
    silent = processor._process(frame_of(bytes(960), 48000, 1, 480))
    assert not any(silent.data)  # nothing of before it was switched off
    processor._close()


def test_what_does_not_fit_is_one_sentence():
    with pytest.raises(AlphaMFError, match="3 samples are not 2 channels"):
        EvenStream(16000, 2, 1.0).process(bytes(6), 1.0)
    for name, values in [("pipecat", "AlphaMFFilter"), ("livekit", "AlphaMFProcessor")]:
        module = pytest.importorskip(f"alphamf.agents.{name}")
        with pytest.raises(AlphaMFError, match="strength must be from 0 to 1, not 2"):
            getattr(module, values)(strength=2)


def talk(query, messages):
    """Send messages to the server of the example, and return the answers and how it closed."""
    pytest.importorskip("websockets", reason="the package websockets is not installed")
    from websockets.asyncio.client import connect
    from websockets.asyncio.server import serve
    from websockets.exceptions import ConnectionClosed

    denoise = runpy.run_path(str(ROOT / "docs" / "servers" / "websocket_server.py"))["denoise"]

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
