"""The ASGI application of service_app.py, in a file of its own: Python 2 cannot read it."""

import asyncio
from concurrent.futures import ThreadPoolExecutor


def application(answer, options):
    if options.server == "uvicorn-threads":
        answer = in_threads(answer, options.workers)
    elif options.handler == "database":
        answer = Database(options.database)

    async def app(scope, receive, send):
        found = answer()
        kind, body = await found if asyncio.iscoroutine(found) else found
        headers = [(b"content-type", kind.encode()), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app


def in_threads(answer, workers):
    """Answers by a pool of threads, as FastAPI and Starlette run what is no coroutine."""
    pool = ThreadPoolExecutor(workers)

    async def respond():
        return await asyncio.get_running_loop().run_in_executor(pool, answer)

    return respond


class Database:
    """Waits for a row without holding up the others: a connection for each request that waits."""

    def __init__(self, address):
        self._host, port = address.rsplit(":", 1)
        self._port = int(port)
        self._free = []

    async def __call__(self):
        if self._free:
            reader, writer = self._free.pop()
        else:
            reader, writer = await asyncio.open_connection(self._host, self._port)
        writer.write(b"row 42\n")
        row = await reader.readline()
        if not row.endswith(b"\n"):
            raise ConnectionError("the database closed its connection")
        self._free.append((reader, writer))
        return "text/plain", row
