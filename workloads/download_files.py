"""The files of the download workloads: what the server's manifest promises, and whether all of it came."""

import protocol

import hashlib
import os

MIB = 1024 * 1024
# b2sdk's DownloadManager and AbstractDownloader.
ALIGNMENT_BYTES = 4096
CHUNKS_PER_FILE = 1000
SMALLEST_CHUNK_BYTES, LARGEST_CHUNK_BYTES = 8192, MIB


class Entry(object):
    """A file that the manifest promises."""

    def __init__(self, sha1, size_bytes, path):
        self.sha1 = sha1
        self.size_bytes = size_bytes
        self.path = path


def parse_manifest(text):
    fields = [line.split(None, 2) for line in text.splitlines()]
    return [Entry(sha1, int(size), path) for sha1, size, path in fields]


def select(entries, prefix, at_most=0):
    """Those below the prefix, the first ones alone if so many are enough; whole MiB, or WorkNotDone.

    The unit of work is a MiB: a broken number of them could not be reported.
    """
    chosen = [entry for entry in entries if entry.path.startswith(prefix)]
    if at_most:
        chosen = chosen[:at_most]
    total_bytes = sum_bytes(chosen)
    if not total_bytes or total_bytes % MIB:
        raise protocol.WorkNotDone(
            "%s in the manifest: expected whole MiB, found %d bytes" % (prefix, total_bytes)
        )
    return chosen


def sum_bytes(entries):
    return sum([entry.size_bytes for entry in entries])


def b2sdk_chunk_bytes(size_bytes):
    """How much b2sdk asks for at a time of a file of this size."""
    ideal = max(size_bytes // CHUNKS_PER_FILE, ALIGNMENT_BYTES)
    clamped = min(max(ideal, SMALLEST_CHUNK_BYTES), LARGEST_CHUNK_BYTES)
    return clamped // ALIGNMENT_BYTES * ALIGNMENT_BYTES


def check(entry, what, expected, found):
    if expected != found:
        values = (entry.path, what, expected, found)
        raise protocol.WorkNotDone("%s: expected %s %s, found %s" % values)


def check_stored(entry, target):
    """Every byte against the manifest; not timed, because hashing costs as much as downloading."""
    if not os.path.exists(target):
        raise protocol.WorkNotDone("%s: nothing was stored" % entry.path)
    check(entry, "bytes", entry.size_bytes, os.path.getsize(target))
    check(entry, "SHA-1", entry.sha1, hash_from(target, 0, hashlib.sha1()).hexdigest())


def hash_from(target, offset, digest):
    """The digest, fed with the file from the offset on."""
    stream = open(target, "rb")
    try:
        stream.seek(offset)
        while True:
            block = stream.read(MIB)
            if not block:
                return digest
            digest.update(block)
    finally:
        stream.close()


def remove(path):
    if os.path.exists(path):
        os.remove(path)
