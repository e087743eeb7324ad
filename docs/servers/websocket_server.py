"""Denoise sound over WebSockets: python docs/servers/websocket_server.py [PORT].

A client connects to ws://localhost:8765/?rate=48000&channels=1&format=s16 (or f32), sends samples
in binary messages of any size, little-endian, channels interleaved, and gets them back denoised in
the same format, 40 ms late. The text message "end" brings what is held back and ends it all.
"""

import asyncio
import sys
from urllib.parse import parse_qs, urlsplit

import numpy as np
from websockets.asyncio.server import ServerConnection, serve

from alphamf import AlphaMFError, Stream

KINDS = {"s16": "<i2", "f32": "<f4"}


async def denoise(connection: ServerConnection) -> None:
    """Serve one client, by a stream of its own."""
    query = parse_qs(urlsplit(connection.request.path if connection.request else "").query)
    rate, channels, kind = (query.get(name, [""])[0] for name in ("rate", "channels", "format"))
    try:
        width = int(channels or 1)
        with Stream(int(rate or 48000), width, latency="low") as stream:
            async for message in connection:
                if isinstance(message, str):  # "end"
                    await connection.send(stream.flush().tobytes())
                    return
                chunk = np.frombuffer(message, KINDS[kind or "s16"]).reshape(-1, width)
                # In a thread, so that one client does not wait for another's sound.
                await connection.send((await asyncio.to_thread(stream.process, chunk)).tobytes())
    except (AlphaMFError, ValueError, KeyError) as error:
        await connection.close(1003, str(error)[:100])


async def main(port: int) -> None:
    """Serve until Ctrl-C, this machine only."""
    async with serve(denoise, "localhost", port, compression=None) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 8765))
