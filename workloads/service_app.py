"""A service that is put under load: one of several servers, with one of several handlers.

It serves until SIGTERM, and reports when it has ended: who loads it knows how much it did.
"""

import protocol

import os
import signal
import socket
import sys
import time

HOST = "0.0.0.0"
BACKLOG = 128
RECORDS = 100
ROW = "row 42\n".encode("ascii")
RECEIVED_BYTES = 4096
PID_FILE = "service.pid"
TEXT = "text/plain"
JSON = "application/json"
XML = "application/xml"


class Stopped(SystemExit):
    """SIGTERM came."""


def light():
    """Next to no work: what the server itself costs."""
    return TEXT, "Hello from a service\n".encode("ascii")


class Database(object):
    """Waits for a row from another machine, as a query does; a connection for each thread."""

    def __init__(self, address):
        import threading

        host, port = address.rsplit(":", 1)
        self._address = (host, int(port))
        self._connections = threading.local()

    def __call__(self):
        # What a server takes for a client that went away would be a request without an answer.
        try:
            return TEXT, self._query(self._connection())
        except socket.error:
            raise protocol.WorkNotDone("the database: " + protocol.describe(sys.exc_info()[1]))

    def _connection(self):
        connection = getattr(self._connections, "one", None)
        if connection is None:
            connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            connection.connect(self._address)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections.one = connection
        return connection

    def _query(self, connection):
        connection.sendall(ROW)
        row = ROW[:0]
        while not row.endswith(ROW[-1:]):
            received = connection.recv(RECEIVED_BYTES)
            if not received:
                raise protocol.WorkNotDone("the database closed its connection")
            row += received
        return row


class Document(object):
    """Reads a JSON document of some 7 kB, changes it and writes it."""

    def __init__(self):
        try:
            import json  # novm: from 2.6 on, asked for
        except ImportError:
            raise protocol.Unsupported("there is no module json")
        self._json = json
        records = [
            {"id": number, "name": "record %d" % number, "tags": list("abc"), "price": number * 1.5}
            for number in range(RECORDS)
        ]
        self._text = json.dumps({"records": records})

    def __call__(self):
        document = self._json.loads(self._text)
        document["total"] = sum([record["id"] for record in document["records"]])
        return JSON, self._json.dumps(document, sort_keys=True).encode("ascii")


class Tree(object):
    """Reads an XML document of some 3 kB into a tree, changes it and writes it.

    Each node knows its parent: what is left of a request is garbage that only the collector of cycles frees.
    """

    def __init__(self):
        from xml.dom import minidom

        self._parse = minidom.parseString
        record = '<record id="%d"><name>record %d</name><price>%d</price></record>'
        records = [record % (number, number, number) for number in range(RECORDS // 2)]
        self._text = "<records>%s</records>" % "".join(records)

    def __call__(self):
        document = self._parse(self._text)
        root = document.documentElement
        total = sum([int(record.getAttribute("id")) for record in root.childNodes])
        root.setAttribute("total", str(total))
        return XML, document.toxml().encode("ascii")


def serve_http_server(answer, options):
    """The standard library's, with a thread for each connection."""
    try:
        import http.server as http_server  # novm
        import socketserver  # novm
    except ImportError:
        # Their names on 2.x.
        import BaseHTTPServer as http_server  # novm
        import SocketServer as socketserver  # novm

    class Handler(http_server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # An answer is one segment: of several each waits for the acknowledgement of the one before.
        wbufsize = -1
        disable_nagle_algorithm = True

        def do_GET(self):
            kind, body = answer()
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()

        def log_message(self, *_):
            pass

    class Server(socketserver.ThreadingMixIn, http_server.HTTPServer):
        daemon_threads = True
        request_queue_size = BACKLOG

        def handle_error(self, *_):
            error = sys.exc_info()[1]
            # On 2.x it gets this one too, where SIGTERM came between a connection and its thread.
            if isinstance(error, Stopped):
                raise error
            # A client that goes away is none.
            if not isinstance(error, (socket.error, ValueError)):
                protocol.end_process(error)

    Server((HOST, options.port), Handler).serve_forever()


def wsgi(answer):
    def application(environ, start_response):
        kind, body = answer()
        start_response("200 OK", [("Content-Type", kind), ("Content-Length", str(len(body)))])
        return [body]

    return application


def serve_waitress(answer, options):
    import logging

    import waitress

    # It would say of each request that waits for a thread that it does.
    logging.getLogger("waitress.queue").setLevel(logging.ERROR)
    server = waitress.create_server(
        wsgi(answer), host=HOST, port=options.port, threads=options.workers
    )
    server.run()


def serve_gunicorn(answer, options):
    import gunicorn.app.base

    class Application(gunicorn.app.base.BaseApplication):
        def load_config(self):
            self.cfg.set("bind", "%s:%d" % (HOST, options.port))
            self.cfg.set("worker_class", "gthread")
            self.cfg.set("threads", options.workers)
            self.cfg.set("loglevel", "error")

        def load(self):
            return wsgi(answer)

    Application().run()


def serve_uvicorn(answer, options):
    import uvicorn

    from service import asynchronous

    application = asynchronous.application(answer, options)
    uvicorn.run(
        application,
        host=HOST,
        port=options.port,
        loop="asyncio",
        http="h11",
        lifespan="off",
        access_log=False,
        log_level="error",
    )


SERVERS = {
    "http.server": serve_http_server,
    "waitress": serve_waitress,
    "gunicorn": serve_gunicorn,
    "uvicorn": serve_uvicorn,
    "uvicorn-threads": serve_uvicorn,
}


def handler(options):
    if options.handler == "light":
        return light
    if options.handler == "json":
        return Document()
    if options.handler == "xml":
        return Tree()
    return Database(options.database)


def stop(*_):
    raise Stopped(0)


def prepare(options):
    protocol.Threads()
    answer = handler(options)

    def timed(_loops):
        owner = os.getpid()
        signal.signal(signal.SIGTERM, stop)
        write(os.path.join(options.scratch, PID_FILE), str(owner))
        start = protocol.timer()
        try:
            SERVERS[options.server](answer, options)
        except SystemExit:
            code = sys.exc_info()[1].code or 0
            # A process that the server has forked reports nothing; by its code the server knows that
            # it need not start another one.
            if os.getpid() != owner:
                os._exit(code)
            if code:
                raise protocol.WorkNotDone("%s ended with exit code %s" % (options.server, code))
        return protocol.timer() - start

    return protocol.Work(timed, 1, {})


def write(path, text):
    file = open(path, "w")
    file.write(text)
    file.close()


def main(arguments=None):
    parser = protocol.new_parser(__doc__.splitlines()[0])
    parser.add_option("--server", choices=sorted(SERVERS), default="http.server")
    parser.add_option("--handler", choices=["light", "database", "json", "xml"], default="light")
    parser.add_option("--workers", type="int", default=8, help="threads, but of http.server")
    parser.add_option("--port", type="int", default=8000)
    parser.add_option("--database", metavar="HOST:PORT", help="what handler 'database' waits for")
    parser.add_option("--scratch", metavar="FOLDER", help="where its process id is written")
    options = protocol.parse(parser, arguments)
    protocol.require_given(parser, "--scratch", options.scratch)
    if options.handler == "database":
        protocol.require_given(parser, "--database", options.database)
    protocol.run(prepare, options)
    # Threads of a server may wait for requests for ever.
    os._exit(0)


if __name__ == "__main__":
    main()
