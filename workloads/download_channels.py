"""What lies between the readers and the end of a download: a queue, and a writer or nobody."""

import protocol

import sys

import download_files as files


class Queues(object):
    """Makes the queues of one kind; `simple` and `process` stand in the place of queue.Queue."""

    def __init__(self, threads, kind):
        self._make = getattr(self, "_make_" + kind)
        self._threads = threads
        # One that cannot be had shows it before any work.
        release(self._make(1))

    def make(self, maxsize):
        return self._make(maxsize)

    def _make_queue(self, maxsize):
        return self._threads.queue(maxsize)

    def _make_simple(self, maxsize):
        # It knows no bound: a writer that falls behind costs memory instead of the readers' time.
        return self._threads.simple_queue()

    def _make_process(self, maxsize):
        try:
            import multiprocessing  # novm: from 2.6 on, asked for

            return multiprocessing.Queue(maxsize)
        # A machine without semaphores has the module and no queue.
        except (ImportError, OSError):
            raise protocol.Unsupported(
                "there is no multiprocessing.Queue: " + protocol.describe(sys.exc_info()[1])
            )


KINDS = ("queue", "simple", "process")


def release(channel):
    """Let go of what a queue holds besides memory: one of multiprocessing has a pipe and a thread."""
    close = getattr(channel, "close", None)
    if close is not None:
        close()
        channel.join_thread()


class Hashing(object):
    """A queue as a reader sees it that hashes what it passes on."""

    def __init__(self, channel, digest):
        self._channel = channel
        self._digest = digest

    def put(self, item):
        if item is not None:
            self._digest.update(item[1])
        self._channel.put(item)


class Disk(object):
    """Stores what comes through a queue below a directory."""

    def __init__(self, directory, target_in):
        self._target = lambda entry: target_in(directory, entry)

    def write(self, entry, channel):
        """Until the None at the end of the queue."""
        stream = open(self._target(entry), "wb")
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

    def hash_from(self, entry, offset, digest):
        return files.hash_from(self._target(entry), offset, digest)

    def check(self, entry):
        files.check_stored(entry, self._target(entry))

    def clear(self, entry):
        files.remove(self._target(entry))


class Nowhere(object):
    """Takes what comes through a queue and keeps nothing but where it belonged."""

    def __init__(self):
        self._pieces = {}

    def write(self, entry, channel):
        pieces = self._pieces[entry.path] = []
        while True:
            item = channel.get()
            if item is None:
                return
            offset, data = item
            pieces.append((offset, len(data)))

    def check(self, entry):
        """Every byte came once; which ones they were, nobody can say any more."""
        end = 0
        for offset, size in sorted(self._pieces[entry.path]):
            files.check(entry, "the next byte at", end, offset)
            end += size
        files.check(entry, "bytes", entry.size_bytes, end)

    def clear(self, entry):
        self._pieces.pop(entry.path, None)
