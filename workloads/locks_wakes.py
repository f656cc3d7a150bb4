"""How long a thread takes to start, and one that waits for a lock to be awake after the release."""

import protocol

STARTS_PER_LOOP = 10
# A round trip wakes either thread once.
ROUND_TRIPS_PER_LOOP = 50
WAKES_PER_LOOP = 2 * ROUND_TRIPS_PER_LOOP


def time_starts(threads, count):
    """Start a thread and wait for its end, again and again."""
    ran = []
    repeats = protocol.lazy_range(count)
    start_s = protocol.timer()
    for number in repeats:
        threads.start(ran.append, number).join()
    duration_s = protocol.timer() - start_s
    if ran != list(repeats):
        raise protocol.WorkNotDone("expected %d threads to run, found %d" % (count, len(ran)))
    return duration_s


def wake(ping, pong, repeats, sent):
    timer = protocol.timer
    for _ in repeats:
        sent.append(timer())
        ping.release()
        pong.acquire()


def answer(ping, pong, repeats, woken):
    timer = protocol.timer
    for _ in repeats:
        ping.acquire()
        woken.append(timer())
        pong.release()


class Wakes(object):
    """Two threads that wake each other in turn; ``metadata`` says how long one way takes.

    A wait is from just before the release to the first thing that the other thread does. It is of
    the last values alone, as many as are reported.
    """

    def __init__(self, threads, values):
        self._threads = threads
        self._values = values
        self._waits_s = []
        self.metadata = {}

    def timed(self, loops):
        ping, pong = self._threads.lock(), self._threads.lock()
        ping.acquire()
        pong.acquire()
        sent, woken = [], []
        repeats = protocol.lazy_range(loops * ROUND_TRIPS_PER_LOOP)
        waiting = self._threads.start(answer, ping, pong, repeats, woken)
        start_s = protocol.timer()
        wake(ping, pong, repeats, sent)
        duration_s = protocol.timer() - start_s
        waiting.join()
        self._note([after - before for before, after in zip(sent, woken)], len(repeats))
        return duration_s

    def _note(self, waits_s, expected):
        if len(waits_s) != expected or [one for one in waits_s if one < 0]:
            raise protocol.WorkNotDone(
                "expected %d waits of 0 s or more, found %d, the shortest of %s s"
                % (expected, len(waits_s), min(waits_s + [0]))
            )
        self._waits_s = (self._waits_s + [waits_s])[-max(1, self._values) :]
        self.metadata.update(latencies(sum(self._waits_s, [])))


def latencies(waits_s):
    """The median, the 99th percentile and the longest; nothing of nothing."""
    if not waits_s:
        return {}
    ordered = sorted(waits_s)
    return {
        "latency_p50_s": percentile(ordered, 50),
        "latency_p99_s": percentile(ordered, 99),
        "latency_max_s": ordered[-1],
    }


def percentile(ordered, per_cent):
    """The smallest one that so many per cent are not above."""
    return ordered[max(0, -(-len(ordered) * per_cent // 100) - 1)]
