"""What a lock or a queue costs one thread that nobody disturbs."""

import protocol

# The second number is for what is written in Python on old versions: one such pair is up to a
# hundred times as dear as one of a plain lock.
LOCK_PAIRS_PER_LOOP = 10000
PAIRS_PER_LOOP = 1000


def time_pairs(threads, lock, pair_count):
    # Bound once: the lookup of a method costs as much as the lock and differs between versions.
    acquire, release = lock.acquire, lock.release
    repeats = protocol.lazy_range(pair_count)
    start_s = protocol.timer()
    for _ in repeats:
        acquire()
        release()
    duration_s = protocol.timer() - start_s
    require_free(threads, lock)
    return duration_s


def time_notifying(threads, condition, pair_count):
    """Nobody waits for it, as in a queue that is neither empty nor full."""
    acquire, notify, release = condition.acquire, condition.notify, condition.release
    repeats = protocol.lazy_range(pair_count)
    start_s = protocol.timer()
    for _ in repeats:
        acquire()
        notify()
        release()
    duration_s = protocol.timer() - start_s
    require_free(threads, condition)
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


def require_free(threads, lock):
    if hasattr(lock, "locked"):
        free = not lock.locked()
    else:
        # In another thread, because the one that holds an RLock can always have it again.
        answers = []
        threads.start(ask_by_acquiring, lock, answers).join()
        free = answers[0]
    if not free:
        raise protocol.WorkNotDone("expected a free lock at the end, found a locked one")


def ask_by_acquiring(lock, answers):
    free = lock.acquire(False)
    if free:
        lock.release()
    answers.append(free)


def check_sum(item_count, found):
    expected = item_count * (item_count + 1) // 2
    if found != expected:
        raise protocol.WorkNotDone(
            "expected %d items with the sum %d, found the sum %d" % (item_count, expected, found)
        )
