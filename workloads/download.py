"""Download one big file in parts, or many small ones, with the threads and queues of b2sdk.

No socket has a timeout: with one, Python polls before every recv, which would be measured too. What
hangs is ended by the deadline of the process.
"""

import protocol  # first: it asks for the GIL's state before anything of the program can change it

import hashlib
import os

try:
    import http.client as http_client
except ImportError:
    import httplib as http_client  # novm: its name on 2.x

MIB = 1024 * 1024
SCHEME = "http://"
STATUS_OK = 200
STATUS_PARTIAL_CONTENT = 206


class Entry(object):
    """A file that the manifest promises, and where it is stored."""

    def __init__(self, sha1, size_bytes, path, destination):
        self.sha1 = sha1
        self.size_bytes = size_bytes
        self.path = path
        # The base name alone: no manifest can write outside the destination.
        self.target = os.path.join(destination, os.path.basename(path))


class Connection(object):
    """One keep-alive connection, for one thread."""

    def __init__(self, address, chunk_bytes):
        self._http = http_client.HTTPConnection(address)
        self._chunk_bytes = chunk_bytes

    def close(self):
        self._http.close()

    def read_all(self, path):
        return self._get(path, {}, STATUS_OK).read()

    def pass_on_file(self, entry, channel):
        response = self._get(entry.path, {}, STATUS_OK)
        self._pass_on(response, entry, 0, entry.size_bytes, channel)

    def pass_on_part(self, entry, first, end, channel):
        headers = {"Range": "bytes=%d-%d" % (first, end - 1)}
        response = self._get(entry.path, headers, STATUS_PARTIAL_CONTENT)
        self._pass_on(response, entry, first, end, channel)

    def _get(self, path, headers, status):
        self._http.request("GET", "/" + path, None, headers)
        response = self._http.getresponse()
        if response.status != status:
            raise protocol.WorkNotDone(
                "%s: expected status %d, found %d" % (path, status, response.status)
            )
        return response

    def _pass_on(self, response, entry, offset, end, channel):
        while offset < end:
            # May return less than asked for; nothing at all means that the server has no more.
            data = response.read(min(self._chunk_bytes, end - offset))
            if not data:
                raise protocol.WorkNotDone(
                    "%s: expected %d bytes, found %d" % (entry.path, end, offset)
                )
            channel.put((offset, data))
            offset += len(data)


def write_items(target, channel):
    """Store what comes through the queue until the None at its end."""
    stream = open(target, "wb")
    try:
        while True:
            item = channel.get()
            if item is None:
                return
            offset, data = item
            stream.seek(offset)
            stream.write(data)
    finally:
        stream.close()


def join_all(started):
    for thread in started:
        thread.join()


class Download(object):
    """Downloads a set of files; how, is for the subclasses."""

    def __init__(self, threads, options, entries):
        self._threads = threads
        self._address = server_address(options.server)
        self._readers = options.readers
        self._chunk_bytes = options.chunk_bytes
        self._entries = entries

    def timed(self, loops):
        duration_s = 0.0
        for _ in range(loops):
            remove_files(self._entries)
            start_s = protocol.timer()
            self.fetch()
            duration_s += protocol.timer() - start_s
            check_files(self._entries)
        return duration_s

    def _start_writer(self, entry, channel):
        return self._threads.start(write_items, entry.target, channel)

    def _connect(self):
        return Connection(self._address, self._chunk_bytes)


class SingleDownload(Download):
    """One file in contiguous parts, a reader each, and one writer for all of them."""

    def fetch(self):
        entry = self._entries[0]
        channel = self._threads.queue(2 * self._readers)
        writer = self._start_writer(entry, channel)
        bounds = [entry.size_bytes * number // self._readers for number in range(self._readers + 1)]
        join_all(
            [
                self._threads.start(self._read_part, entry, first, end, channel)
                for first, end in zip(bounds, bounds[1:])
            ]
        )
        channel.put(None)
        writer.join()

    def _read_part(self, entry, first, end, channel):
        connection = self._connect()
        connection.pass_on_part(entry, first, end, channel)
        connection.close()


class ManyDownload(Download):
    """A pool of readers takes file after file; each file has a writer and a queue of its own."""

    def fetch(self):
        entries = self._threads.queue(0)
        for entry in self._entries + [None] * self._readers:
            entries.put(entry)
        join_all([self._threads.start(self._read_files, entries) for _ in range(self._readers)])

    def _read_files(self, entries):
        connection = self._connect()
        while True:
            entry = entries.get()
            if entry is None:
                break
            self._read_file(connection, entry)
        connection.close()

    def _read_file(self, connection, entry):
        channel = self._threads.queue(2)
        writer = self._start_writer(entry, channel)
        connection.pass_on_file(entry, channel)
        channel.put(None)
        writer.join()


DOWNLOADS = {"single": SingleDownload, "many": ManyDownload}
PREFIXES = {"single": "single.bin", "many": "many/"}


def remove_files(entries):
    for entry in entries:
        if os.path.exists(entry.target):
            os.remove(entry.target)


def check_files(entries):
    """Every byte against the manifest; not timed, because hashing costs as much as downloading."""
    for entry in entries:
        check(entry, "bytes", entry.size_bytes, os.path.getsize(entry.target))
        check(entry, "SHA-1", entry.sha1, file_sha1(entry.target))


def check(entry, what, expected, found):
    if expected != found:
        values = (entry.path, what, expected, found)
        raise protocol.WorkNotDone("%s: expected %s %s, found %s" % values)


def file_sha1(target):
    digest = hashlib.sha1()
    stream = open(target, "rb")
    try:
        while True:
            block = stream.read(MIB)
            if not block:
                return digest.hexdigest()
            digest.update(block)
    finally:
        stream.close()


def server_address(url):
    return url[len(SCHEME) :].rstrip("/")


def read_manifest(options):
    connection = Connection(server_address(options.server), options.chunk_bytes)
    text = connection.read_all("manifest").decode("ascii")
    connection.close()
    fields = [line.split(None, 2) for line in text.splitlines()]
    return [Entry(sha1, int(size), path, options.destination) for sha1, size, path in fields]


def prepare(options):
    threads = protocol.Threads()
    prefix = PREFIXES[options.what]
    entries = [entry for entry in read_manifest(options) if entry.path.startswith(prefix)]
    if options.at_most_files:
        entries = entries[: options.at_most_files]
    total_bytes = sum([entry.size_bytes for entry in entries])
    # The unit of work is a MiB: a broken number of them could not be reported.
    if not total_bytes or total_bytes % MIB:
        raise protocol.WorkNotDone(
            "%s in the manifest: expected whole MiB, found %d bytes" % (prefix, total_bytes)
        )
    metadata = {
        "bytes": total_bytes,
        "readers": options.readers,
        "chunk_bytes": options.chunk_bytes,
    }
    download = DOWNLOADS[options.what](threads, options, entries)
    return protocol.Work(download.timed, total_bytes // MIB, metadata)


def main():
    parser = protocol.new_parser(__doc__)
    parser.add_option(
        "--what", type="choice", choices=sorted(DOWNLOADS), help=" or ".join(sorted(DOWNLOADS))
    )
    parser.add_option("--server", help="http://IP:PORT")
    parser.add_option("--readers", type="int", default=8, help="threads that read")
    parser.add_option("--chunk-bytes", type="int", default=8192, help="how much a read asks for")
    parser.add_option("--at-most-files", type="int", default=0, help="the first of `many`; 0: all")
    parser.add_option("--destination", help="an existing directory")
    options = protocol.parse(parser)
    protocol.require_given(parser, "--what", options.what)
    protocol.require_at_least(parser, "--readers", options.readers, 1)
    protocol.require_at_least(parser, "--chunk-bytes", options.chunk_bytes, 1)
    protocol.require_at_least(parser, "--at-most-files", options.at_most_files, 0)
    if not (options.server or "").startswith(SCHEME):
        parser.error("--server: expected http://IP:PORT, found %s" % options.server)
    if not os.path.isdir(options.destination or ""):
        parser.error("--destination: expected a directory, found %s" % options.destination)
    protocol.run(prepare, options)


if __name__ == "__main__":
    main()
