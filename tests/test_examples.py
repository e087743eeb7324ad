"""The examples of the documents do what they say."""

from __future__ import annotations

import asyncio
import runpy

import numpy as np
import pytest
import soundfile

from alphamf import Stream
from tests.support.places import DATA, ROOT

websockets = pytest.importorskip("websockets", reason="the package websockets is not installed")


def talk(query, messages):
    """Send messages to the server of the example, and return the answers and how it closed."""
    from websockets.asyncio.client import connect
    from websockets.asyncio.server import serve
    from websockets.exceptions import ConnectionClosed

    denoise = runpy.run_path(str(ROOT / "docs/servers/websocket_server.py"))["denoise"]

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
