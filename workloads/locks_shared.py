"""What a lock, a queue or an object costs threads that share it.

Nothing here sleeps or polls: on GNU pth a thread that does either starves all the others.
"""

import protocol

from locks_alone import check_sum

ITEMS_PER_LOOP = 100
COUNTS_PER_LOOP = 1000
TURNS_PER_LOOP = 100
REFERENCES_PER_LOOP = 10000
REFERENCES_PER_REPEAT = 10
# Small enough that producers and consumers really wait for each other.
QUEUE_LENGTH = 16


class Counter(object):
    """What the threads count up."""

    total = 0


def count_under(guard, counter, repeats):
    acquire, release = guard.acquire, guard.release
    for _ in repeats:
        acquire()
        counter.total += 1
        release()


def count_without_lock(counter, repeats):
    for _ in repeats:
        counter.total += 1


def time_counter(threads, guard, thread_count, count):
    counter = Counter()
    shares = shares_of(count, thread_count)
    duration_s = threads.time_at_once([(count_under, guard, counter, one) for one in shares])
    if counter.total != count:
        raise protocol.WorkNotDone("expected a count of %d, found %d" % (count, counter.total))
    return duration_s


class UnprotectedCount(object):
    """Threads that count up without a lock: ``metadata`` says what share of the counts was lost."""

    def __init__(self, threads, thread_count):
        self._threads = threads
        self._thread_count = thread_count
        self._asked = self._found = 0
        self.metadata = {"threads": thread_count}

    def timed(self, loops):
        counter = Counter()
        count = loops * COUNTS_PER_LOOP
        shares = shares_of(count, self._thread_count)
        work = [(count_without_lock, counter, one) for one in shares]
        duration_s = self._threads.time_at_once(work)
        self._note(count, counter.total)
        return duration_s

    def _note(self, count, found):
        if not min(count, 1) <= found <= count:
            raise protocol.WorkNotDone("expected a count of 1 to %d, found %d" % (count, found))
        self._asked += count
        self._found += found
        if self._asked:
            self.metadata["lost_share"] = 1.0 - float(self._found) / self._asked


def shares_of(count, thread_count):
    """Each thread's numbers of 1 to ``count``: as many as another's, or one more."""
    return [
        protocol.lazy_range(1 + number, 1 + count, thread_count) for number in range(thread_count)
    ]


def produce(channel, items):
    for item in items:
        channel.put(item)
    # One for each thread that gets: the last of them is behind every item.
    channel.put(None)


def consume(channel, sums):
    received = 0
    while True:
        item = channel.get()
        if item is None:
            break
        received += item
    sums.append(received)


def time_queue(threads, channel, pairs, item_count):
    """As many threads put as get."""
    sums = []
    shares = shares_of(item_count, pairs)
    duration_s = threads.time_at_once(
        [(consume, channel, sums)] * pairs + [(produce, channel, share) for share in shares]
    )
    check_sum(item_count, sum(sums))
    return duration_s


class Turns(object):
    """Whose turn it is, and how many were taken."""

    whose = 0
    taken = 0


def take_turns(condition, turns, mine, repeats):
    for _ in repeats:
        condition.acquire()
        while turns.whose != mine:
            condition.wait()
        turns.whose = 1 - mine
        turns.taken += 1
        condition.notify()
        condition.release()


def time_turns(threads, condition, count):
    """Two threads in turn: for each turn one waits and is notified."""
    turns = Turns()
    shares = shares_of(count, 2)
    duration_s = threads.time_at_once(
        [(take_turns, condition, turns, mine, shares[mine]) for mine in (0, 1)]
    )
    if turns.taken != count:
        raise protocol.WorkNotDone("expected %d turns, found %d" % (count, turns.taken))
    return duration_s


def take_references(shared, repeats, taken):
    """Ten references for each repeat, each dropping the one before; if None, of one of its own."""
    if shared is None:
        shared = object()
    count = 0
    for _ in repeats:
        held = shared
        held = shared
        held = shared
        held = shared
        held = shared
        held = shared
        held = shared
        held = shared
        held = shared
        held = shared
        count += held is shared
    taken.append(REFERENCES_PER_REPEAT * count)


def time_references(threads, shared, count):
    """Two threads at once, and each takes half of the references."""
    taken = []
    repeats = shares_of(count // REFERENCES_PER_REPEAT, 2)
    duration_s = threads.time_at_once([(take_references, shared, one, taken) for one in repeats])
    if sum(taken) != count:
        raise protocol.WorkNotDone("expected %d references, found %d" % (count, sum(taken)))
    return duration_s
