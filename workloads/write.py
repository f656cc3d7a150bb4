"""Write one file in contiguous parts, a thread each, as fast as they can: what a downloader's storage allows.

os.pwrite writes at an offset through the one descriptor that all threads share. It came with Python
3.3; before, each thread has a descriptor of its own and seeks before every write. `--how` says which.
"""

import protocol

import atexit
import os

MIB = 1024 * 1024
# Blocks that differ from each other. A prime: what lies that many blocks apart is not at one
# multiple of a power of two, where a block that went astray would be likely to land.
BLOCKS = 61
AUTO, PWRITE, SEEK = "auto", "pwrite", "seek"


class Writing(object):
    """Writes a file of its own again and again."""

    def __init__(self, threads, options):
        self._threads = threads
        self._workers = options.workers
        self._block_bytes = options.block_bytes
        self._block_count = options.mib * MIB // options.block_bytes
        self._fsync = options.fsync
        self._target = os.path.join(options.destination, "written.bin")
        self._blocks = [os.urandom(options.block_bytes) for _ in range(BLOCKS)]
        self._write = self._seek_and_write
        if options.how == PWRITE:
            self._write = self._pwrite

    def timed(self, loops):
        duration_s = 0.0
        for _ in range(loops):
            start_s = protocol.timer()
            # What an earlier file took has to be given back, once for each: as in the limit in C.
            self.remove()
            self.write()
            duration_s += protocol.timer() - start_s
            written = protocol.usage()
            self.check()
            protocol.set_aside(written)
        return duration_s

    def write(self):
        """The whole file, from the making of it to its end."""
        shared = os.open(self._target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, int("600", 8))
        count = self._block_count
        bounds = [count * number // self._workers for number in range(self._workers + 1)]
        started = [
            self._threads.start(self._write, shared, first, end)
            for first, end in zip(bounds, bounds[1:])
        ]
        for thread in started:
            thread.join()
        if self._fsync:
            os.fsync(shared)
        os.close(shared)

    def _pwrite(self, shared, first, end):
        blocks, size = self._blocks, self._block_bytes
        pwrite = os.pwrite  # novm: from 3.3 on, asked for
        for number in protocol.lazy_range(first, end):
            require_whole(size, pwrite(shared, blocks[number % BLOCKS], number * size))

    def _seek_and_write(self, shared, first, end):
        # The position belongs to the open file, not to the number: a duplicate would share it.
        own = os.open(self._target, os.O_WRONLY)
        blocks, size = self._blocks, self._block_bytes
        for number in protocol.lazy_range(first, end):
            os.lseek(own, number * size, 0)
            require_whole(size, os.write(own, blocks[number % BLOCKS]))
        os.close(own)

    def check(self):
        """Every byte, read back; not timed."""
        stream = open(self._target, "rb")
        try:
            # Few reads, so that a profile of the work has few of them.
            step = max(1, MIB // self._block_bytes)
            for first in protocol.lazy_range(0, self._block_count, step):
                end = min(first + step, self._block_count)
                self._check_blocks(stream.read((end - first) * self._block_bytes), first, end)
            if stream.read(1):
                raise protocol.WorkNotDone("%s: more than was written" % self._target)
        finally:
            stream.close()

    def _check_blocks(self, found, first, end):
        size = self._block_bytes
        for number in protocol.lazy_range(first, end):
            at = (number - first) * size
            if found[at : at + size] != self._blocks[number % BLOCKS]:
                problem = (self._target, number * size)
                raise protocol.WorkNotDone("%s: wrong bytes from %d on" % problem)

    def remove(self):
        if os.path.exists(self._target):
            os.remove(self._target)


def require_whole(expected, found):
    if found != expected:
        raise protocol.WorkNotDone(
            "a write took %d of %d bytes: the disk is full" % (found, expected)
        )


def prepare(options):
    threads = protocol.Threads()
    has_pwrite = hasattr(os, "pwrite")
    if options.how == PWRITE and not has_pwrite:
        raise protocol.Unsupported("os.pwrite came with Python 3.3")
    if options.how == AUTO:
        options.how = SEEK
        if has_pwrite:
            options.how = PWRITE
    metadata = {
        "how": options.how,
        "workers": options.workers,
        "block_bytes": options.block_bytes,
    }
    writing = Writing(threads, options)
    if not options.keep:
        atexit.register(writing.remove)
    return protocol.Work(writing.timed, options.mib, metadata)


def main():
    parser = protocol.new_parser(__doc__)
    parser.add_option("--destination", help="an existing directory")
    parser.add_option("--workers", type="int", default=1, help="threads that write")
    parser.add_option("--block-bytes", type="int", default=MIB, help="of one write")
    parser.add_option("--mib", type="int", default=64, help="size of the file")
    parser.add_option("--how", type="choice", choices=(AUTO, PWRITE, SEEK), default=AUTO)
    parser.add_option("--fsync", action="store_true", default=False, help="within the timing")
    parser.add_option("--keep", action="store_true", default=False, help="leave the last file")
    options = protocol.parse(parser)
    if not os.path.isdir(options.destination or ""):
        parser.error("--destination: expected a directory, found %s" % options.destination)
    for name, found in (("--workers", options.workers), ("--mib", options.mib)):
        protocol.require_at_least(parser, name, found, 1)
    protocol.require_at_least(parser, "--block-bytes", options.block_bytes, 1)
    if options.mib * MIB % options.block_bytes:
        parser.error("--block-bytes: expected a divisor of the file's size")
    protocol.run(prepare, options)


if __name__ == "__main__":
    main()
