"""A database that answers each line with the line, 5 ms later: what services wait for when they wait."""

import asyncio
import sys

DELAY_S = 0.005


class Connection(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        asyncio.get_running_loop().call_later(DELAY_S, self.transport.write, data)


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Connection, "0.0.0.0", port)  # noqa: S104  its container has a network of its own
    await server.serve_forever()


asyncio.run(serve(int(sys.argv[1])))
