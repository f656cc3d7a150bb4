"""A program without threads that sends requests over one connection, polls and receives.

It asks by poll before it sends and before it receives, as the program of 2007 must have done, which
polled 1,936 times, sent 896 times and received 1,076 times. A socket with a timeout makes the same
calls, then Python polls.
"""

import protocol

import hashlib
import select
import socket

# As often as the program of 2007 sent.
REQUESTS_PER_LOOP = 896
SCHEME = "http://"
STATUS_OK = 200
STATUS_PARTIAL_CONTENT = 206
TIMEOUT_S = 5
RECEIVED_BYTES = 65536
# With its head a part is less than a segment of 1,448 bytes. The rest of a longer one waits for the
# acknowledgement of its beginning, at times 40 ms.
PART_BYTES = 1000
FILE = "single.bin"
REQUEST = "GET /%s HTTP/1.1\r\nHost: %s\r\nAccept: */*\r\n%s\r\n"
END_OF_HEAD = "\r\n\r\n".encode("ascii")


class PolledSocket(object):
    """The program polls."""

    def __init__(self, connected):
        self._socket = connected
        self._writable, self._readable = select.poll(), select.poll()
        self._writable.register(connected, select.POLLOUT)
        self._readable.register(connected, select.POLLIN)

    def sendall(self, data):
        self._wait(self._writable)
        self._socket.sendall(data)

    def recv(self, size):
        self._wait(self._readable)
        return self._socket.recv(size)

    def _wait(self, poll):
        if not poll.poll(TIMEOUT_S * 1000):
            raise protocol.WorkNotDone("expected an answer, found none for %d s" % TIMEOUT_S)


class Connection(object):
    """One keep-alive connection."""

    def __init__(self, address, with_timeout):
        self._address = address
        host, port = address.rsplit(":", 1)
        connected = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        connected.connect((host, int(port)))
        if with_timeout:
            connected.settimeout(TIMEOUT_S)
            self._socket = connected
        else:
            self._socket = PolledSocket(connected)

    def get(self, path):
        return self._answer(path, "", STATUS_OK)

    def get_part(self, path, first, end):
        bounds = "Range: bytes=%d-%d\r\n" % (first, end - 1)
        return self._answer(path, bounds, STATUS_PARTIAL_CONTENT)

    def _answer(self, path, header, expected):
        """The body of the response to one request."""
        self._socket.sendall((REQUEST % (path, self._address, header)).encode("ascii"))
        data = self._receive()
        while END_OF_HEAD not in data:
            data += self._receive()
        head, body = data.split(END_OF_HEAD, 1)
        lines = head.decode("ascii").split("\r\n")
        status = int(lines[0].split(None, 2)[1])
        if status != expected:
            raise protocol.WorkNotDone(
                "%s: expected status %d, found %d" % (path, expected, status)
            )
        return self._body(body, content_length(lines[1:]))

    def _body(self, begun, size_bytes):
        chunks = [begun]
        missing = size_bytes - len(begun)
        while missing > 0:
            chunks.append(self._receive())
            missing -= len(chunks[-1])
        return chunks[0][:0].join(chunks)

    def _receive(self):
        data = self._socket.recv(RECEIVED_BYTES)
        if not data:
            raise protocol.WorkNotDone("expected a whole response, found its connection closed")
        return data


def content_length(lines):
    for line in lines:
        name, value = line.split(":", 1)
        if name.lower() == "content-length":
            return int(value)
    raise protocol.WorkNotDone("expected a Content-Length, found none in the response")


class Requests(object):
    """Asks for parts from all over a file, one by each request of a loop, and compares them."""

    def __init__(self, connection):
        self._connection = connection
        self._content = read_verified(self._connection)
        size_bytes = len(self._content)
        firsts = [size_bytes * number // REQUESTS_PER_LOOP for number in range(REQUESTS_PER_LOOP)]
        self._parts = [(first, min(first + PART_BYTES, size_bytes)) for first in firsts]

    def timed(self, loops):
        received = []
        start_s = protocol.timer()
        for _ in range(loops):
            for first, end in self._parts:
                received.append(self._connection.get_part(FILE, first, end))
        duration_s = protocol.timer() - start_s
        self._check(received, loops)
        return duration_s

    def _check(self, received, loops):
        """Outside of the time: each part is what the whole file has in its place."""
        for number, ((first, end), found) in enumerate(zip(self._parts * loops, received)):
            if found != self._content[first:end]:
                raise protocol.WorkNotDone(
                    "request %d: expected bytes %d to %d of %s, found others"
                    % (number + 1, first, end - 1, FILE)
                )


def read_verified(connection):
    """The whole file, whose SHA-1 is in the manifest."""
    lines = connection.get("manifest").decode("ascii").splitlines()
    expected = [line.split(None, 2)[0] for line in lines if line.endswith(" " + FILE)]
    if not expected:
        raise protocol.WorkNotDone("expected %s in the manifest, found it missing" % FILE)
    content = connection.get(FILE)
    found = hashlib.sha1(content).hexdigest()
    if found != expected[0]:
        raise protocol.WorkNotDone(
            "%s: expected SHA-1 %s, found %s" % (FILE, expected[0], found)
        )
    return content


def start_a_thread():
    """Whether one could be started. It ends at once; 2.x has locks for its GIL from then on."""
    try:
        protocol.Threads()
    except protocol.Unsupported:
        return False
    return True


def prepare(options):
    metadata = {"thread_started": options.after_a_thread and start_a_thread()}
    address = options.server[len(SCHEME) :].rstrip("/")
    requests = Requests(Connection(address, options.with_timeout))
    return protocol.Work(requests.timed, REQUESTS_PER_LOOP, metadata)


def main():
    parser = protocol.new_parser(__doc__)
    parser.add_option("--server", help="http://IP:PORT")
    parser.add_option(
        "--after-a-thread",
        action="store_true",
        default=False,
        help="start a thread before, if the interpreter can, and wait for its end",
    )
    parser.add_option(
        "--with-timeout",
        action="store_true",
        default=False,
        help="a socket with a timeout: Python polls, not the program",
    )
    options = protocol.parse(parser)
    if not (options.server or "").startswith(SCHEME):
        parser.error("--server: expected http://IP:PORT, found %s" % options.server)
    protocol.run(prepare, options)


if __name__ == "__main__":
    main()
