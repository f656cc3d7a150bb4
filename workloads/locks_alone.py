"""What a lock or a queue costs one thread that nobody disturbs."""

import protocol

# The second number is for what is written in Python on old versions: one such pair is up to a
# hundred times as dear as one of a plain lock.
LOCK_PAIRS_PER_LOOP = 10000
PAIRS_PER_LOOP = 1000


def time_pairs(lock, pair_count):
    # Bound once: the lookup of a method costs as much as the lock and differs between versions.
    acquire, release = lock.acquire, lock.release
    repeats = protocol.lazy_range(pair_count)
    start_s = protocol.timer()
    for _ in repeats:
        acquire()
        release()
    duration_s = protocol.timer() - start_s
    require_free(lock)
    return duration_s


def time_notifying(condition, pair_count):
    """Nobody waits for it, as in a queue that is neither empty nor full."""
    acquire, notify, release = condition.acquire, condition.notify, condition.release
    repeats = protocol.lazy_range(pair_count)
    start_s = protocol.timer()
    for _ in repeats:
        acquire()
        notify()
        release()
    duration_s = protocol.timer() - start_s
    require_free(condition)
    return duration_s


def time_passing(channel, item_count):
    """Put an item in and take it out again."""
    put, get = channel.put, channel.get
    received = 0
    # From 1 and not from 0, so that every lost item changes the sum.
    items = protocol.lazy_range(1, item_count + 1)
    start_s = protocol.timer()
    for item in items:
        put(item)
        received += get()
    duration_s = protocol.timer() - start_s
    check_sum(item_count, received)
    return duration_s


def require_free(lock):
    if hasattr(lock, "locked"):
        free = not lock.locked()
    elif hasattr(lock, "_is_owned"):
        # An RLock or a Condition until 3.13: this thread can always acquire it again, and the start
        # of another one to ask would be a part of the CPU time.
        free = not lock._is_owned()
    else:
        free = lock.acquire(False)
        if free:
            lock.release()
    if not free:
        raise protocol.WorkNotDone("expected a free lock at the end, found a locked one")


def check_sum(item_count, found):
    expected = item_count * (item_count + 1) // 2
    if found != expected:
        raise protocol.WorkNotDone(
            "expected %d items with the sum %d, found the sum %d" % (item_count, expected, found)
        )
