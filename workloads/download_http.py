"""HTTP for the download workloads: http.client or requests, in the clear or over TLS.

No socket has a timeout: with one, Python polls before every recv, which would be measured too. What
hangs is ended by the deadline of the process.
"""

import protocol

import atexit
import os
import socket
import sys
import tempfile

try:
    import http.client as http_client
except ImportError:
    import httplib as http_client  # novm: its name on 2.x

import download_files as files

SCHEME, TLS_SCHEME = "http://", "https://"
STATUS_OK = 200
STATUS_PARTIAL_CONTENT = 206
CERTIFICATE = "tls.pem"
# How a connection ends before its time; what requests raises is an IOError as well.
LOST = (IOError, socket.error, http_client.HTTPException)


def require_server(parser, url):
    if not (url or "").startswith(SCHEME):
        parser.error("--server: expected http://IP:PORT, found %s" % url)


def fetch(server, path):
    """A small file, whole, in the clear."""
    try:
        http = http_client.HTTPConnection(server_address(server))
        http.request("GET", "/" + path)
        response = http.getresponse()
        check_status(path, STATUS_OK, response.status)
        data = response.read()
        http.close()
    except LOST:
        problem = (path, server, protocol.describe(sys.exc_info()[1]))
        raise protocol.WorkNotDone("%s cannot be had from %s: %s" % problem)
    return data


def read_manifest(server):
    return files.parse_manifest(fetch(server, "manifest").decode("ascii"))


def server_address(url):
    return url[len(SCHEME) :].rstrip("/")


def check_status(path, expected, found):
    if expected != found:
        raise protocol.WorkNotDone("%s: expected status %d, found %d" % (path, expected, found))


class Piece(object):
    """A file or a part of it that is asked for, and how far it has come."""

    def __init__(self, entry, part, chunk_bytes):
        self.path = entry.path
        self.chunk_bytes = chunk_bytes
        self.headers, self.status = {}, STATUS_OK
        self.position, self.end = part or (0, entry.size_bytes)
        if part:
            self.status = STATUS_PARTIAL_CONTENT
            self.headers = {"Range": "bytes=%d-%d" % (self.position, self.end - 1)}

    def cut_short(self, why):
        values = (self.path, self.end, self.position, why)
        return protocol.WorkNotDone("%s: expected %d bytes, found %d: %s" % values)


class Connection(object):
    """What one thread downloads with; how, is for the subclasses."""

    def pass_on(self, entry, part, chunk_bytes, channel):
        """Put (offset, bytes) into the queue, of a part (first, end) or, of None, the whole file."""
        piece = Piece(entry, part, chunk_bytes)
        try:
            self._pass_on(piece, channel)
        except LOST:
            raise piece.cut_short(protocol.describe(sys.exc_info()[1]))
        if piece.position != piece.end:
            raise piece.cut_short("the server had no more")


class PlainConnection(Connection):
    """A keep-alive connection of http.client."""

    def __init__(self, http):
        self._http = http

    def close(self):
        self._http.close()

    def _pass_on(self, piece, channel):
        self._http.request("GET", "/" + piece.path, None, piece.headers)
        response = self._http.getresponse()
        check_status(piece.path, piece.status, response.status)
        while piece.position < piece.end:
            # May return less than asked for; nothing at all means that the server has no more.
            data = response.read(min(piece.chunk_bytes, piece.end - piece.position))
            if not data:
                break
            channel.put((piece.position, data))
            piece.position += len(data)


class RequestsConnection(Connection):
    """A thread's share of the session, which keeps the connections of all of them."""

    def __init__(self, session, base):
        self._session = session
        self._base = base

    def close(self):
        """Nothing: the connection goes back to the session."""

    def _pass_on(self, piece, channel):
        response = self._session.get(self._base + piece.path, headers=piece.headers, stream=True)
        check_status(piece.path, piece.status, response.status_code)
        for data in response.iter_content(piece.chunk_bytes):
            channel.put((piece.position, data))
            piece.position += len(data)
        response.close()


class PlainClient(object):
    """Makes connections of http.client."""

    def __init__(self, server, tls_port, readers):
        self._address = server_address(server)
        self._context = None
        if tls_port:
            self._address = tls_address(server, tls_port)
            self._context = tls_context(certificate_file(server))

    def connect(self):
        if self._context:
            return PlainConnection(
                http_client.HTTPSConnection(self._address, context=self._context)
            )
        return PlainConnection(http_client.HTTPConnection(self._address))


class RequestsClient(object):
    """One session for all threads, as in b2sdk."""

    def __init__(self, server, tls_port, readers):
        # Not imported above: it is there only where a benchmark requires it.
        try:
            import requests
        except ImportError:
            raise protocol.Unsupported(
                "requests cannot be imported: " + protocol.describe(sys.exc_info()[1])
            )
        self._session = requests.Session()
        # Neither proxies nor passwords of the surroundings: a cell has none, and asking costs time.
        self._session.trust_env = False
        adapter = requests.adapters.HTTPAdapter(pool_connections=1, pool_maxsize=readers)
        self._base = SCHEME + server_address(server) + "/"
        if tls_port:
            self._base = TLS_SCHEME + tls_address(server, tls_port) + "/"
            self._session.verify = certificate_file(server)
        self._session.mount(self._base, adapter)

    def connect(self):
        return RequestsConnection(self._session, self._base)


CLIENTS = {"http.client": PlainClient, "requests": RequestsClient}


def tls_address(server, port):
    return "%s:%d" % (server_address(server).rsplit(":", 1)[0], port)


def tls_context(certificate):
    try:
        import ssl  # novm: from 2.6 on, asked for

        return ssl.create_default_context(cafile=certificate)  # novm: from 2.7.9 on, asked for
    except (ImportError, AttributeError):
        raise protocol.Unsupported("no TLS here: " + protocol.describe(sys.exc_info()[1]))


def tls_spoken(server, port):
    """Version and cipher that this interpreter and the server agree on; nobody's certificate counts."""
    context = tls_context(None)
    context.check_hostname = False
    context.verify_mode = 0
    http = http_client.HTTPSConnection(tls_address(server, port), context=context)
    http.connect()
    spoken = "%s %s" % (http.sock.version(), http.sock.cipher()[0])  # novm: as in tls_context
    http.close()
    return spoken


def certificate_file(server):
    """What the server says is its certificate, as a file of this process."""
    handle, path = tempfile.mkstemp(".pem")
    atexit.register(os.remove, path)
    os.write(handle, fetch(server, CERTIFICATE))
    os.close(handle)
    return path
