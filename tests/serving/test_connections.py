"""Connections whose client does not do its part: they end in time, and users get in meanwhile."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import pytest

pytest.importorskip("uvicorn", reason="the extra web is not installed")

import uvicorn
from uvicorn.server import ServerState

from alphamf.serving.guard import Guard
from alphamf.serving.limits import Limits
from alphamf.serving.render import PART
from alphamf.serving.server import Serving, _listen, protocol

LIMITS = Limits(head=0.3, idle=0.3, connections=16)
PATIENT = replace(LIMITS, head=600.0, idle=600.0)
TOKEN = "a-token-of-this-test"


def request(path: str, *headers: str) -> bytes:
    lines = [f"GET {path} HTTP/1.1", "Host: 127.0.0.1", *headers, "", ""]
    return "\r\n".join(lines).encode()


class Stall(NamedTuple):
    """What a client sends at first, and again and again; in between it may be answered."""

    first: bytes = b""
    every: bytes = b""
    answered: bool = False


HEALTH = request("/health")

STALLS = {
    "silence": Stall(),
    "half a head": Stall(b"GET / HT"),
    "a head byte by byte": Stall(b"GET / HT", every=b"a"),
    "half a head after answers": Stall(b"GET / HT", answered=True),
    "a head byte by byte after answers": Stall(b"GET / HT", b"a", answered=True),
    "a body after its answer": Stall(request("/health", "Content-Length: 9"), answered=True),
    "a body byte by byte": Stall(request("/health", "Content-Length: 99999"), b"a", answered=True),
    "chunks": Stall(request("/health", "Transfer-Encoding: chunked"), b"1\r\na\r\n", True),
    "questions without a reader": Stall(30_000 * HEALTH),
}
UNREAD = {
    "an answer without a reader": Stall(request(f"/{TOKEN}/long")),
    "a last answer without a reader": Stall(request(f"/{TOKEN}/long", "Connection: close")),
}


async def application(scope, receive, send):
    """Answer with a body that no buffer of the system holds, or once the client has left."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] == "/wait":
        while (await receive())["type"] != "http.disconnect":
            pass
    for _ in range(200 if scope["path"] == "/long" else 1):
        await send({"type": "http.response.body", "body": bytes(PART), "more_body": True})
    await send({"type": "http.response.body"})


class Listener(NamedTuple):
    """Where a server listens, and its state."""

    port: int
    state: ServerState


@asynccontextmanager
async def listening(limits: Limits) -> AsyncIterator[Listener]:
    config = uvicorn.Config(
        Guard(application, TOKEN),
        http=protocol(limits),
        ws="none",
        lifespan="off",
        log_config=None,
        limit_concurrency=limits.connections,
    )
    config.load()
    state = ServerState()
    make = partial(config.http_protocol_class, config=config, server_state=state, app_state={})
    server = await asyncio.get_running_loop().create_server(make, sock=_listen(Serving()))
    try:
        yield Listener(server.sockets[0].getsockname()[1], state)
    finally:
        for each in list(state.connections):
            each.transport.abort()
        server.close()
        await reached(lambda: not state.tasks)


async def reached(condition, patience=30.0) -> None:
    deadline = asyncio.get_running_loop().time() + patience
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "waited in vain"
        await asyncio.sleep(0.01)


def connect(port: int) -> socket.socket:
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    with suppress(BlockingIOError):
        client.connect(("127.0.0.1", port))
    return client


async def stall(port: int, kind: Stall) -> None:
    """Be such a client until the server ends the connection."""
    loop = asyncio.get_running_loop()
    client = connect(port)
    try:
        with suppress(ConnectionError):
            for _ in range(3 * kind.answered):  # for longer than the first request may take
                await loop.sock_sendall(client, HEALTH)
                await loop.sock_recv(client, 65536)
                await asyncio.sleep(LIMITS.head / 2)
            await loop.sock_sendall(client, kind.first)
            while True:
                await loop.sock_sendall(client, kind.every)
                await asyncio.sleep(0.02)
    finally:
        client.close()


async def ask(port: int, path: str, *headers: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request(path, "Connection: close", *headers))
    try:
        return await reader.read()
    finally:
        writer.close()


@pytest.mark.parametrize("kind", [*STALLS, *UNREAD])
def test_a_client_that_stalls_is_left(kind):
    async def run():
        async with listening(LIMITS) as (port, state):
            client = asyncio.create_task(stall(port, (STALLS | UNREAD)[kind]))
            await reached(lambda: state.connections)
            await reached(lambda: not state.connections and not state.tasks)
            client.cancel()
            await asyncio.gather(client, return_exceptions=True)

    asyncio.run(run())


@pytest.mark.parametrize("kind", STALLS)
def test_strangers_that_stall_make_room_for_users(kind):
    async def run():
        async with listening(PATIENT) as (port, state):
            user = asyncio.create_task(ask(port, f"/{TOKEN}/wait"))
            await reached(lambda: state.tasks)
            count = 3 * PATIENT.connections
            clients = [asyncio.create_task(stall(port, STALLS[kind])) for _ in range(count)]
            await reached(
                lambda: (
                    len(state.connections) >= PATIENT.connections - 1
                    or all(client.done() for client in clients)  # some kinds are refused at once
                )
            )
            for path in ("/health", f"/{TOKEN}/page"):
                assert (await ask(port, path)).startswith(b"HTTP/1.1 200")
            assert len(state.connections) < PATIENT.connections and not user.done()
            for client in [*clients, user]:
                client.cancel()
            await asyncio.gather(*clients, user, return_exceptions=True)

    asyncio.run(run())


def test_users_alone_are_not_left_for_others():
    async def run():
        async with listening(PATIENT) as (port, state):
            count = PATIENT.connections - 1
            users = [asyncio.create_task(ask(port, f"/{TOKEN}/wait")) for _ in range(count)]
            await reached(lambda: len(state.tasks) == count)
            assert (await ask(port, "/health")).startswith(b"HTTP/1.1 503")
            assert not any(user.done() for user in users)
            for user in users:
                user.cancel()
            await asyncio.gather(*users, return_exceptions=True)

    asyncio.run(run())


@pytest.mark.slow
def test_a_slow_reader_gets_its_whole_answer():
    async def run():
        loop = asyncio.get_running_loop()
        async with listening(replace(LIMITS, head=2.0, idle=2.0)) as (port, _):
            client = connect(port)
            await loop.sock_sendall(client, request(f"/{TOKEN}/long", "Connection: close"))
            begun, size = loop.time(), 0
            while data := await loop.sock_recv(client, 1 << 20):
                size += len(data)
                if loop.time() - begun < 6:
                    await asyncio.sleep(0.02)
            client.close()
            assert size > 200 * PART

    asyncio.run(run())
