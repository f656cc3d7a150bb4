"""Download one big file in parts, or many small ones, with the threads and queues of b2sdk."""

import protocol  # first: it asks for the GIL's state before anything of the program can change it

import hashlib
import os

import download_channels as channels
import download_files as files
import download_http as http

NULL, B2SDK = "null", "b2sdk"


class Download(object):
    """Downloads a set of files; how, is for the subclasses."""

    def __init__(self, threads, options, entries):
        self._threads = threads
        self._readers = options.readers
        self._chunk_bytes = options.chunk_bytes
        self._hashes = options.sha1
        self._keeps = options.keep
        self._entries = entries
        self._client = http.CLIENTS[options.client](
            options.server, options.tls_port, options.readers
        )
        self._queues = channels.Queues(threads, options.queue)
        self._sink = channels.Nowhere()
        if options.destination != NULL:
            self._sink = channels.Disk(options.destination, target_in)

    def timed(self, loops):
        duration_s = 0.0
        for _ in range(loops):
            self._clear()
            start_s = protocol.timer()
            self.fetch()
            duration_s += protocol.timer() - start_s
            downloaded = protocol.usage()
            for entry in self._entries:
                self._sink.check(entry)
            if not self._keeps:
                # Cells that wait for their next turn keep nothing in memory.
                self._clear()
            protocol.set_aside(downloaded)
        return duration_s

    def _clear(self):
        for entry in self._entries:
            self._sink.clear(entry)

    def _start_writer(self, entry, channel):
        return self._threads.start(self._sink.write, entry, channel)

    def _chunk_bytes_of(self, entry):
        return self._chunk_bytes or files.b2sdk_chunk_bytes(entry.size_bytes)


class SingleDownload(Download):
    """One file in contiguous parts, a reader each, and one writer for all of them."""

    def fetch(self):
        entry = self._entries[0]
        channel = self._queues.make(2 * self._readers)
        writer = self._start_writer(entry, channel)
        bounds = [entry.size_bytes * number // self._readers for number in range(self._readers + 1)]
        parts = list(zip(bounds, bounds[1:]))
        first, digest = channel, None
        if self._hashes:
            digest = hashlib.sha1()
            first = channels.Hashing(channel, digest)
        join_all(
            [
                self._threads.start(self._read_part, entry, part, into)
                for part, into in zip(parts, [first] + [channel] * len(parts))
            ]
        )
        channel.put(None)
        writer.join()
        channels.release(channel)
        if self._hashes:
            # As b2sdk does: the first part while it comes, the rest read once more, by one thread.
            digest = self._sink.hash_from(entry, parts[0][1], digest)
            files.check(entry, "SHA-1", entry.sha1, digest.hexdigest())

    def _read_part(self, entry, part, channel):
        connection = self._client.connect()
        connection.pass_on(entry, part, self._chunk_bytes_of(entry), channel)
        connection.close()


class ManyDownload(Download):
    """A pool of readers takes file after file; each file has a writer and a queue of its own."""

    def fetch(self):
        entries = self._threads.queue(0)
        for entry in self._entries + [None] * self._readers:
            entries.put(entry)
        join_all([self._threads.start(self._read_files, entries) for _ in range(self._readers)])

    def _read_files(self, entries):
        connection = self._client.connect()
        while True:
            entry = entries.get()
            if entry is None:
                break
            self._read_file(connection, entry)
        connection.close()

    def _read_file(self, connection, entry):
        channel = self._queues.make(2)
        writer = self._start_writer(entry, channel)
        into, digest = channel, None
        if self._hashes:
            digest = hashlib.sha1()
            into = channels.Hashing(channel, digest)
        connection.pass_on(entry, None, self._chunk_bytes_of(entry), into)
        channel.put(None)
        writer.join()
        channels.release(channel)
        if self._hashes:
            files.check(entry, "SHA-1", entry.sha1, digest.hexdigest())


DOWNLOADS = {"single": SingleDownload, "many": ManyDownload}
PREFIXES = {"single": "single.bin", "many": "many/"}


def join_all(started):
    for thread in started:
        thread.join()


def target_in(directory, entry):
    # The base name alone: no manifest can write outside the destination.
    return os.path.join(directory, os.path.basename(entry.path))


def prepare(options):
    threads = protocol.Threads()
    promised = http.read_manifest(options.server)
    entries = files.select(promised, PREFIXES[options.what], options.at_most_files)
    total_bytes = files.sum_bytes(entries)
    metadata = {
        "bytes": total_bytes,
        "readers": options.readers,
        "chunk_bytes": options.chunk_bytes or files.b2sdk_chunk_bytes(entries[0].size_bytes),
        "client": options.client,
        "queue": options.queue,
    }
    download = DOWNLOADS[options.what](threads, options, entries)
    if options.tls_port:
        metadata["tls"] = http.tls_spoken(options.server, options.tls_port)
    return protocol.Work(download.timed, total_bytes // files.MIB, metadata)


def new_parser():
    parser = protocol.new_parser(__doc__)
    clients = sorted(http.CLIENTS)
    for name, choices in (("--what", sorted(DOWNLOADS)), ("--client", clients)):
        parser.add_option(name, type="choice", choices=choices, help=" or ".join(choices))
    parser.add_option(
        "--queue", type="choice", choices=channels.KINDS, default="queue", help="between threads"
    )
    parser.add_option("--server", help="http://IP:PORT")
    parser.add_option("--tls-port", type="int", default=0, help="of the server; 0: in the clear")
    parser.add_option("--readers", type="int", default=8, help="threads that read")
    parser.add_option(
        "--chunk-bytes", default="8192", help="how much a read asks for; b2sdk: as b2sdk chooses"
    )
    parser.add_option("--at-most-files", type="int", default=0, help="the first of `many`; 0: all")
    parser.add_option("--destination", help="an existing directory, or null")
    parser.add_option("--sha1", action="store_true", help="hash as b2sdk does, within the timing")
    parser.add_option("--keep", action="store_true", help="leave the last download where it is")
    parser.set_defaults(client="http.client", sha1=False, keep=False)
    return parser


def parse(parser):
    options = protocol.parse(parser)
    protocol.require_given(parser, "--what", options.what)
    protocol.require_at_least(parser, "--readers", options.readers, 1)
    protocol.require_at_least(parser, "--at-most-files", options.at_most_files, 0)
    protocol.require_at_least(parser, "--tls-port", options.tls_port, 0)
    options.chunk_bytes = parse_chunk_bytes(parser, options.chunk_bytes)
    http.require_server(parser, options.server)
    if options.destination != NULL and not os.path.isdir(options.destination or ""):
        parser.error("--destination: expected a directory or null, found %s" % options.destination)
    if options.sha1 and options.what == "single" and options.destination == NULL:
        parser.error("--sha1: what went to null cannot be read once more")
    return options


def parse_chunk_bytes(parser, text):
    """None for what b2sdk chooses."""
    if text == B2SDK:
        return None
    if not text.isdigit():
        parser.error("--chunk-bytes: expected a number or b2sdk, found %s" % text)
    protocol.require_at_least(parser, "--chunk-bytes", int(text), 1)
    return int(text)


def main():
    protocol.run(prepare, parse(new_parser()))


if __name__ == "__main__":
    main()
